import type { Pool, PoolClient } from 'pg'
import { WaybillError } from '../../runtime/errors.ts'
import { query, transaction } from '../postgres/pool.ts'
import { ChainWalk } from './chain-walk.ts'
import { NO_HASH, witnessMac, type ChainHead, type Witness } from './chain.ts'
import { runOn, storedEvents, type Run } from './stored-event.ts'
import type { Verification } from './verification.ts'

/**
 * Reads the whole log, as it is at one moment, against its chain, the head beside it and the head of the last
 * verification. Throws AUDIT_KEY_REQUIRED for a chained log without a key. It holds one connection and a batch of
 * events.
 */
export function verifyLog(pool: Pool, key: string | null): Promise<Verification> {
  const verify = (client: PoolClient) => (key === null ? countUnchained(client) : walk(client, key))
  return transaction(pool, verify, 'isolation level repeatable read read only')
}

async function walk(client: PoolClient, key: string): Promise<Verification> {
  const run = runOn(client)
  const chain = new ChainWalk({ key, head: await readHead(run), witness: await readWitness(run) })
  for await (const events of storedEvents(run)) chain.pass(events)
  return chain.end()
}

/** Without a key there is nothing to hold the events against, but no hash may be there either. */
async function countUnchained(client: PoolClient): Promise<Verification> {
  const [found] = await query<{ chained: boolean; count: number }>(
    client,
    `select exists (select from audit_event where hash <> '')
        or exists (select from audit_head where last_id <> 0)
        or exists (select from audit_witness where head_id <> 0) as chained,
      (select count(*) from audit_event) as count`,
  )
  const { chained = false, count = 0 } = found ?? {}
  if (chained) {
    throw new WaybillError(
      'AUDIT_KEY_REQUIRED',
      'The audit log has events with a hash: only a process with the AUDIT_KEY can verify them',
    )
  }
  return { ok: true, events_checked: count, chained: 0, unchained: count, head_id: null, head_hash: NO_HASH }
}

export async function readHead(run: Run): Promise<ChainHead | null> {
  const [head] = await run<Record<'first_id' | 'last_id' | 'hash' | 'mac', string>>(
    'select first_id::text as first_id, last_id::text as last_id, hash, mac from audit_head',
    [],
  )
  if (head === undefined) return null
  return { ...head, firstId: Number(head.first_id), lastId: Number(head.last_id) }
}

async function readWitness(run: Run): Promise<Witness | null> {
  const [witness] = await run<Record<'head_id' | 'hash' | 'mac', string>>(
    'select head_id::text as head_id, head_hash as hash, mac from audit_witness',
    [],
  )
  return witness === undefined ? null : { ...witness, headId: Number(witness.head_id) }
}

/** Keeps the head of a log that verifies: from now on none of the events up to it can be cut off unnoticed. */
export async function keepWitness(client: PoolClient, key: string, head: Verification): Promise<void> {
  if (!head.ok || head.head_id === null) return
  const witness = { headId: head.head_id, hash: head.head_hash }
  // Another node may have kept a later one meanwhile.
  await query(
    client,
    `update audit_witness set head_id = $1, head_hash = $2, mac = $3, verified_at = now() where head_id <= $1`,
    [witness.headId, witness.hash, witnessMac(key, witness)],
  )
}
