import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import { PermanentFailure } from '../exchange/retry.ts'
import type { Queryable } from '../postgres/pool.ts'
import type { ClaimedDelivery } from '../sql/claim.ts'
import { differs } from './digest.ts'
import { openStage } from './journal.ts'
import type { PayloadStore } from './store.ts'

/**
 * What a target sends: the stage `unpacked` of a claimed delivery, from the claim itself or from where it lies. Either
 * way it is held against the digest of the message's record; what differs is a StorageError and nothing is sent.
 */

/** The bytes, where they came with the claim; null where they are to be opened. */
export function claimedBytes(delivery: ClaimedDelivery): Buffer | null {
  const { unpacked, message_id } = delivery
  if (unpacked !== null && hash('sha256', unpacked, 'hex') !== digestOf(delivery))
    throw differs(`The payload ${message_id}/unpacked`)
  return unpacked
}

/** The same as a stream, wherever they are; of what is damaged in the store it ends with an error before its last byte. */
export async function openDelivered(
  on: Queryable,
  store: PayloadStore,
  delivery: ClaimedDelivery,
): Promise<Readable> {
  const bytes = claimedBytes(delivery)
  if (bytes !== null) return Readable.from([bytes], { objectMode: false })
  return openStage(on, store, delivery.message_id, 'unpacked', { sha256: digestOf(delivery) })
}

function digestOf({ payloads }: ClaimedDelivery): string {
  const stage = payloads['unpacked']
  if (stage === undefined) throw new PermanentFailure('The message has no payload')
  return stage.sha256
}
