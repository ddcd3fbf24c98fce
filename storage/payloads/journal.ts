import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { WaybillError } from '../../runtime/errors.ts'
import type { PayloadStage } from '../exchange/states.ts'
import { query, type Queryable } from '../postgres/pool.ts'
import { StorageError } from '../storage-error.ts'
import { differs } from './digest.ts'
import { payloadName, type OpenOptions, type PayloadStore } from './store.ts'

/**
 * Reading stages. A small stage is committed with its message in the journal; the mover (mover.ts) brings it to the
 * store and only then takes it out of the journal. Who looks in the journal first and then in the store finds it.
 *
 * Every read is held against the digest that was committed with the message: of who does not know it, it is looked up.
 */

/** The stages of many messages that the journal has now, by `<message id>/<stage>`, in one round trip. */
export async function readJournal(
  on: Queryable,
  wanted: readonly { readonly messageId: string; readonly stage: PayloadStage }[],
): Promise<ReadonlyMap<string, Buffer>> {
  const rows = await query<{ message_id: string; stage: string; bytes: Buffer }>(
    on,
    `select j.message_id, j.stage, j.bytes from journal j
     join unnest($1::uuid[], $2::text[]) as wanted (message_id, stage) using (message_id, stage)`,
    [wanted.map(({ messageId }) => messageId), wanted.map(({ stage }) => stage)],
    'read_journal',
  )
  return new Map(rows.map(({ message_id, stage, bytes }) => [`${message_id}/${stage}`, bytes]))
}

/**
 * The bytes of a stage wherever it is; the stream ends with an error, before its last byte, when they are not those that
 * were stored. Throws NOT_FOUND when the message's record has no such stage, and a StorageError when it has one that is
 * neither in journal nor store: that is no fault of who asks for it.
 */
export async function openStage(
  on: Queryable,
  store: PayloadStore,
  messageId: string,
  stage: PayloadStage,
  options: OpenOptions = {},
): Promise<Readable> {
  const found = await find(on, store, messageId, stage, options)
  return Buffer.isBuffer(found) ? Readable.from([found], { objectMode: false }) : found
}

/** As `openStage`, for who has read the record. */
export async function openRecordedStage(
  on: Queryable,
  store: PayloadStore,
  recorded: { readonly messageId: string; readonly stage: PayloadStage; readonly sha256: string },
): Promise<Readable> {
  const { messageId, stage, sha256 } = recorded
  return openStage(on, store, messageId, stage, { sha256 })
}

/** As `openStage`, for a stage that is held in memory; one above `limitBytes` is refused with a StorageError. */
export async function readStage(
  on: Queryable,
  store: PayloadStore,
  messageId: string,
  stage: PayloadStage,
  limitBytes: number,
  options: OpenOptions = {},
): Promise<Buffer> {
  const found = await find(on, store, messageId, stage, options)
  if (!Buffer.isBuffer(found)) return buffer(limited(found, limitBytes, `${messageId}/${stage}`))
  if (found.length > limitBytes) throw tooLarge(`${messageId}/${stage}`, limitBytes)
  return found
}

async function find(
  on: Queryable,
  store: PayloadStore,
  messageId: string,
  stage: PayloadStage,
  options: OpenOptions,
): Promise<Buffer | Readable> {
  const [id] = payloadName(messageId, stage)
  const sha256 = options.sha256 ?? (await recordedDigest(on, id, stage))
  const first = await lookInJournal(on, id, stage, sha256)
  if (first !== undefined) return first
  const stored = await store.open(id, stage, { sha256 })
  if (stored !== undefined) return stored
  // It may have been committed between the two looks.
  const second = await lookInJournal(on, id, stage, sha256)
  if (second !== undefined) return second
  // And moved between the look at the store and that one.
  const moved = await store.open(id, stage, { sha256 })
  if (moved !== undefined) return moved
  throw new StorageError(
    `The payload ${id}/${stage} is recorded and not stored: it is not in ${placesOf(store)}`,
    {
      problem: 'missing',
    },
  )
}

function placesOf({ place, earlierPlaces }: PayloadStore): string {
  return earlierPlaces.length === 0
    ? place
    : `${place}, nor in storage that was used before: ${earlierPlaces.join(', ')}`
}

async function recordedDigest(on: Queryable, messageId: string, stage: PayloadStage): Promise<string> {
  const [row] = await query<{ sha256: string | null }>(
    on,
    `select payloads -> $2 ->> 'sha256' as sha256 from message where id = $1`,
    [messageId, stage],
    'recorded_digest',
  )
  if (row?.sha256 == null)
    throw new WaybillError('NOT_FOUND', `The message has no payload ${stage}`, { stage })
  return row.sha256
}

async function lookInJournal(
  on: Queryable,
  messageId: string,
  stage: PayloadStage,
  sha256: string,
): Promise<Buffer | undefined> {
  const bytes = (await readJournal(on, [{ messageId, stage }])).get(`${messageId}/${stage}`)
  if (bytes !== undefined && hash('sha256', bytes, 'hex') !== sha256) {
    throw differs(`The payload ${messageId}/${stage}`)
  }
  return bytes
}

async function* limited(stream: Readable, limitBytes: number, what: string): AsyncGenerator<Buffer> {
  let sizeBytes = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length
    if (sizeBytes > limitBytes) throw tooLarge(what, limitBytes)
    yield chunk
  }
}

function tooLarge(what: string, limitBytes: number): StorageError {
  return new StorageError(`The payload ${what} is larger than ${limitBytes} bytes`)
}
