import { randomUUIDv7 } from 'node:crypto'
import type { Pool } from 'pg'
import { journaled } from '../../../storage/exchange/stages.ts'
import { query } from '../../../storage/postgres/pool.ts'
import type { JudgedReceipt } from '../../../storage/receipts/expected-receipts.ts'
import type { NewMessage } from '../../../storage/sql/accept.ts'
import type { Outcome, Settlement } from '../../../storage/sql/settle.ts'
import type { ClaimedDelivery } from '../../../storage/sql/claim.ts'

/** One source, two targets, and a route to each of the targets that the test names. */
export async function routesTo(pool: Pool, ...targets: readonly string[]): Promise<void> {
  const plugin = (name: string, role: string): Promise<unknown> =>
    query(
      pool,
      `insert into plugin_configuration (name, type, role, enabled, settings, secrets) values ($1, 'test', $2, true, '{}', '')`,
      [name, role],
    )
  await plugin('source', 'source')
  for (const target of targets) {
    await plugin(target, 'target')
    await query(pool, `insert into route (source_plugin, target_plugin) values ('source', $1)`, [target])
  }
}

export function newMessage(changes: Partial<NewMessage> = {}): NewMessage {
  const bytes = Buffer.from('payload')
  return {
    id: randomUUIDv7(),
    direction: 'outbound',
    source: 'source',
    from: 'acme',
    to: 'globex',
    fileName: 'invoice.edi',
    contentType: 'application/edifact',
    sizeBytes: bytes.length,
    stages: [journaled('unpacked', bytes)],
    protocols: {},
    sourceReference: null,
    duplicateKey: null,
    refusal: null,
    dispatch: true,
    ...changes,
  }
}

export function settlementOf(claimed: ClaimedDelivery, outcome: Outcome): Settlement {
  return {
    deliveryId: claimed.id,
    messageId: claimed.message_id,
    fencing: claimed.fencing,
    outcome,
    protocols: null,
    stage: null,
    line: null,
  }
}

/** Lets exchange time go on, as it does when the clock ticks for so long. */
export async function passTime(pool: Pool, seconds: number): Promise<void> {
  await pool.query(
    `update exchange_clock set ticked_at = coalesce(ticked_at, now()) + make_interval(secs => $1),
       shift = shift + make_interval(secs => $1)`,
    [seconds],
  )
}

/** What `exchange_clock` is like after the server's date was changed by so many seconds. */
export async function jumpServerClock(pool: Pool, seconds: number): Promise<void> {
  await pool.query('update exchange_clock set shift = shift + make_interval(secs => $1)', [seconds])
}

export function claimFor(target: string, limit = 10) {
  return { target, limit, owner: `node/${target}/test`, leaseSeconds: 60 }
}

/** A genuine receipt: positive, or with a reason negative. */
export function receiptFor(messageId: string, failure: string | null = null): JudgedReceipt {
  return {
    messageId,
    module: 'as2',
    facts: {
      state: failure === null ? 'received' : 'refused',
      disposition: failure === null ? 'processed' : 'processed/error',
    },
    failure,
    line: { kind: failure === null ? 'mdn_received' : 'mdn_refused', text: failure ?? 'processed' },
    stage: null,
  }
}
