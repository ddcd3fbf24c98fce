import type { Pool } from 'pg'
import { crashPoint } from '../../runtime/crash-point.ts'
import type { Log } from '../../runtime/log.ts'
import { execute, query, type Queryable } from '../postgres/pool.ts'

/** Certificates end by the day: a look a minute is more than enough. */
const ROUND_MS = 60_000
/** Another node holds the clock, or none does yet. */
const LOOK_AGAIN_MS = 5_000
/** So many certificates in one transaction, however many end at once. */
const BATCH = 100

export interface AlertRoundOptions {
  readonly pool: Pool
  readonly log: Log
  /** Identifies this data directory among the nodes. */
  readonly nodeId: string
}

/**
 * What is alerted by the calendar, on the node that holds the exchange's clock: certificates in use that end. What was
 * told is recorded with the alert, so that no restart or other node tells it again. Rows that wait for nobody are ended,
 * whatever comes of the certificates. Answers the milliseconds until the next round.
 */
export async function alertRound({ pool, log, nodeId }: AlertRoundOptions): Promise<number> {
  let raised: number | null = 0
  try {
    raised = await raiseCertificateAlerts(pool, nodeId)
  } finally {
    if (raised !== null) await execute(pool, END_ORPHANS)
  }
  if (raised === null) return LOOK_AGAIN_MS
  if (raised > 0) log.warn({ certificates: raised }, 'certificates in use end soon, or have ended')
  return ROUND_MS
}

/** Answers how many were raised; null when this node does not hold the clock. */
export async function raiseCertificateAlerts(on: Queryable, nodeId: string): Promise<number | null> {
  let raised = 0
  for (;;) {
    const [row] = await query<{ batch: number | null }>(
      on,
      'select raise_certificate_alerts($1, $2) as batch',
      [nodeId, BATCH],
    )
    const batch = row?.batch ?? null
    // Another node may have taken the clock over between two of them.
    if (batch === null) return raised === 0 ? null : raised
    if (batch > 0) crashPoint('notification.certificates-raised')
    raised += batch
    if (batch < BATCH) return raised
  }
}

/** Rows that an event made for a notifier at the very moment in which it was deleted; each part has an index of its own. */
const END_ORPHANS = `
select end_notifications(gone.instance) from (
  select f.instance from fresh_notification f
  union
  select b.instance from begun_notification b where b.test
) gone
where not exists (select from plugin_configuration p where p.name = gone.instance and p.role = 'notifier')`
