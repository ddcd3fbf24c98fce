import type { Pool } from 'pg'
import type { Alert } from '../../../storage/alerts/alert.ts'
import { claimPost, settlePost, type ClaimedPost, type PostRequest } from '../../../storage/alerts/outbox.ts'
import { execute, query } from '../../../storage/postgres/pool.ts'
import { claim } from '../../../storage/sql/claim.ts'
import { settle, type Outcome } from '../../../storage/sql/settle.ts'
import { claimFor, settlementOf } from '../exchange/fixture.ts'

/** A notifier; settings that are left out are missing, as in a record that is older than they are. */
export async function notifier(
  pool: Pool,
  name: string,
  settings: Readonly<Record<string, unknown>> = {},
  enabled = true,
): Promise<void> {
  await execute(
    pool,
    `insert into plugin_configuration (name, type, role, enabled, settings, secrets)
     values ($1, 'notification-webhook', 'notifier', $2, $3, '')`,
    [name, enabled, JSON.stringify(settings)],
  )
}

/** All alerts, the oldest first. */
export function alertsOf(pool: Pool): Promise<Alert[]> {
  return query<Alert>(pool, 'select * from alert order by id')
}

interface RowOfLog {
  readonly id: number
  readonly instance: string
  readonly code: string
  readonly key: string
  readonly outcome: string
  readonly attempts: number
  readonly last_error: string | null
}

/** The rows of the log, the oldest first. */
export function rowsOf(pool: Pool, instance = 'hook'): Promise<RowOfLog[]> {
  return query<RowOfLog>(
    pool,
    `select id, instance, code, dedupe_key as key, outcome, attempts, last_error from notification
     where instance = $1 order by id`,
    [instance],
  )
}

export async function outcomesOf(pool: Pool, instance = 'hook'): Promise<string[]> {
  return (await rowsOf(pool, instance)).map(({ outcome }) => outcome)
}

/** Raises an alert as events do. */
export async function raise(
  pool: Pool,
  { repeats = 'a/b', severity = 'critical', code = 'delivery_failed' } = {},
) {
  await query(
    pool,
    `select raise_alert($1, $2, 'message', 'id', 'name', 'It failed', 'Why', $3, '/api/v1/messages/id')`,
    [severity, code, repeats],
  )
}

/** Of the notifier as it is saved; of none, one that no notifier has. */
export async function generationOf(pool: Pool, name: string): Promise<string> {
  const [saved] = await query<{ generation: string }>(
    pool,
    'select generation from plugin_configuration where name = $1',
    [name],
  )
  return saved?.generation ?? '00000000-0000-0000-0000-000000000000'
}

/** Claims for the notifier `hook`, as it is saved; without cooldown and grouping unless the test says so. */
export async function claimOne(pool: Pool, changes: Partial<PostRequest> = {}) {
  return claimPost(pool, {
    instance: 'hook',
    generation: changes.generation ?? (await generationOf(pool, changes.instance ?? 'hook')),
    format: 'generic',
    address: 'https://hooks.example.com',
    owner: 'node/hook/run/1',
    leaseSeconds: 3_600,
    cooldownSeconds: 0,
    groupSeconds: 0,
    ...changes,
  })
}

export async function claimed(pool: Pool, changes: Partial<PostRequest> = {}): Promise<ClaimedPost> {
  const { post } = await claimOne(pool, changes)
  if (post === null) throw new Error('Nothing was claimed')
  return post
}

/** Posts what is next, and the webhook takes it. Answers how many alerts it stood for. */
export async function deliverOne(pool: Pool, changes: Partial<PostRequest> = {}): Promise<number> {
  const post = await claimed(pool, changes)
  if (!(await settlePost(pool, post, { outcome: 'delivered' }))) throw new Error('The claim was lost')
  return post.count
}

/** Claims a delivery for the target and settles it so. */
export async function attempt(pool: Pool, outcome: Outcome, target = 'a'): Promise<void> {
  const [delivery] = await claim(pool, claimFor(target, 1))
  if (delivery === undefined) throw new Error('Nothing was claimed')
  await settle(pool, [settlementOf(delivery, outcome)])
}

/** The server's date goes on by so many seconds while exchange time stands still, as it does while no service runs. */
export async function passDate(pool: Pool, seconds: number): Promise<void> {
  await execute(
    pool,
    `update notification set created_at = created_at - make_interval(secs => $1),
       delivered_at = delivered_at - make_interval(secs => $1), due_date = due_date - make_interval(secs => $1)`,
    [seconds],
  )
  await execute(pool, 'update notifier_rest set rest_date = rest_date - make_interval(secs => $1)', [seconds])
}
