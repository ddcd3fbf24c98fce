import { query } from '../../../storage/postgres/pool.ts'
import type { Lane } from './lane.ts'
import type { AlertArrival } from './peers.ts'
import { COOLDOWN_MINUTES, DIGEST, OPERATORS } from './site.ts'

interface Told {
  readonly id: string
  readonly code: string
  readonly raised: number
  readonly expected: number
}

interface NotificationRow {
  readonly id: number
  readonly alert_id: number
  readonly instance: string
  readonly outcome: string
  readonly attempts: number
  readonly test: boolean
  readonly dedupe_key: string
  readonly last_error: string | null
  readonly carrier_id: number | null
  /** Null before its first post. */
  readonly webhook_id: string | null
  readonly created_at: Date
  readonly delivered_at: Date | null
}

/**
 * Each event is one alert, each notifier has it once and was told of it as it wants, and a repeat of a post carried the
 * same id and the same body.
 */
export async function wrongAlerts(lane: Lane): Promise<string[]> {
  const { pool, peers, lostStores } = lane
  const wrong: string[] = []
  for (const { id, code, raised, expected } of await query<Told>(pool, TOLD))
    if (raised !== expected) wrong.push(`${expected} ${code} of ${id} are ${raised} alerts`)
  const [twice] = await query<{ stores: number; failures: number }>(pool, TWICE)
  if (twice?.stores !== lostStores)
    wrong.push(`${lostStores} losses of the store are ${twice?.stores} alerts`)
  if (twice?.failures !== 0) wrong.push(`${twice?.failures} failures of instances were raised twice`)
  const arrivals = Map.groupBy(peers.alerts, ({ id }) => id)
  const rows = await query<NotificationRow>(
    pool,
    `select n.id, n.id || '-' || n.post_id as webhook_id, n.alert_id, n.instance, n.outcome, n.attempts, n.test, n.dedupe_key, n.last_error, n.carrier_id,
       n.created_at, coalesce(c.delivered_at, n.delivered_at) as delivered_at
     from notification n left join notification c on c.id = n.carrier_id order by n.id`,
  )
  const carried = Map.groupBy(rows, ({ carrier_id }) => carrier_id)
  for (const row of rows) {
    const arrived = arrivals.get(row.webhook_id ?? '') ?? []
    arrivals.delete(row.webhook_id ?? '')
    wrong.push(
      ...wrongOutcome(row, rows).map((what) => `${what} (${row.instance}, ${row.dedupe_key})`),
      ...wrongPosts(lane, { row, others: carried.get(row.id) ?? [], arrived }),
    )
  }
  for (const id of arrivals.keys()) wrong.push(`the notification ${id} arrived and was never made`)
  wrong.push(...wrongRepeats(rows), ...wrongNotifiers(rows))
  return wrong
}

/** A notifier without cooldown and grouping delivers all; the other one also leaves out and groups. */
function wrongOutcome(row: NotificationRow, rows: readonly NotificationRow[]): string[] {
  const { id, outcome, test, instance, last_error, carrier_id, dedupe_key } = row
  if (test && outcome === 'failed') return last_error === null ? [`the test ${id} failed for no reason`] : []
  if (outcome === 'delivered') return []
  if (instance !== DIGEST) return [`the notification ${id} is ${outcome}`]
  if (outcome === 'grouped') {
    const carrier = rows.find((other) => other.id === carrier_id)
    const isTold = carrier?.outcome === 'delivered' && row.delivered_at !== null
    return isTold ? [] : [`the notification ${id} is grouped with one that is ${carrier?.outcome}`]
  }
  if (outcome !== 'suppressed_cooldown') return [`the notification ${id} is ${outcome}`]
  const isKnown = rows.some(
    (other) => other.instance === instance && other.dedupe_key === dedupe_key && other.delivered_at !== null,
  )
  return isKnown ? [] : [`the notification ${id} is left out, and nothing of its key was told`]
}

interface Posts {
  readonly row: NotificationRow
  /** Those that went along with it. */
  readonly others: readonly NotificationRow[]
  readonly arrived: readonly AlertArrival[]
}

function wrongPosts({ kills }: Lane, { row, others, arrived }: Posts): string[] {
  const { id, outcome, attempts, test } = row
  const taken = arrived.filter(({ isTaken }) => isTaken).length
  const wrong: string[] = []
  if (outcome === 'delivered' && taken === 0)
    wrong.push(`the notification ${id} is delivered and did not arrive`)
  if (taken > (test ? 1 : kills + 1)) wrong.push(`the notification ${id} was taken ${taken} times`)
  if (arrived.length > attempts) wrong.push(`the notification ${id} came more often than it was tried`)
  if (new Set(arrived.map(({ sha256 }) => sha256)).size > 1)
    wrong.push(`the notification ${id} came with different bodies`)
  const group = [row, ...others].map(({ alert_id }) => alert_id).toSorted((a, b) => a - b)
  for (const { count, alerts } of arrived) {
    if (count !== group.length)
      wrong.push(`the notification ${id} told of ${count} alerts, not ${group.length}`)
    if (alerts.toSorted((a, b) => a - b).join() !== group.join())
      wrong.push(`the notification ${id} told of the alerts ${alerts.join()}, not ${group.join()}`)
  }
  return wrong
}

/** What was raised after its key was told is not told again within the cooldown. */
function wrongRepeats(rows: readonly NotificationRow[]): string[] {
  const told = rows.filter(({ instance, delivered_at }) => instance === DIGEST && delivered_at !== null)
  return told.flatMap((row) =>
    told
      .filter(
        ({ dedupe_key, delivered_at }) =>
          dedupe_key === row.dedupe_key &&
          Number(delivered_at) < Number(row.created_at) &&
          Number(row.delivered_at) < Number(delivered_at) + (COOLDOWN_MINUTES - 1) * 60_000,
      )
      .map(({ id }) => `the notification ${row.id} repeats ${id} within the cooldown`),
  )
}

/** One row for each alert and notifier; a test is for one of them. */
function wrongNotifiers(rows: readonly NotificationRow[]): string[] {
  const byAlert = Map.groupBy(rows, ({ alert_id }) => alert_id)
  return [...byAlert].flatMap(([alert, all]) => {
    const notifiers = all
      .map(({ instance }) => instance)
      .toSorted()
      .join()
    const expected = all.some(({ test }) => test) ? OPERATORS : [DIGEST, OPERATORS].toSorted().join()
    return notifiers === expected ? [] : [`the alert ${alert} went to ${notifiers}`]
  })
}

const TOLD = `
select id, code, sum(raised)::int as raised, sum(expected)::int as expected from (
  select message_id::text as id, case
      when kind = 'status_changed' then 'message_refused'
      when new_state = 'stalled' then 'delivery_stalled'
      when old_state = 'awaiting_ack' and text = no_receipt_came() then 'receipt_overdue'
      else 'delivery_failed' end as code,
    0 as raised, 1 as expected
  from history
  where kind = 'status_changed' and new_status = 'Refused'
    or kind = 'delivery_changed' and new_state in ('failed', 'stalled')
  union all
  select certificate_id::text, 'certificate_expiring', 0, 1 from certificate_alert where days > 0
  union all
  select subject_id, code, 1, 0 from alert where subject_kind in ('message', 'certificate')
) told group by id, code`

/** The same failure of an instance has the same time. */
const TWICE = `
select count(*) filter (where code = 'storage_failed')::int as stores,
  (count(*) filter (where code = 'plugin_failed')
    - count(distinct (subject_id, alert_time)) filter (where code = 'plugin_failed'))::int as failures
from alert`
