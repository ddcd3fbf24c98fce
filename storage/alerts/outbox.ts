import { query, type Queryable } from '../postgres/pool.ts'
import { crashPoint } from '../../runtime/crash-point.ts'
import { ALERT_COLUMNS, type Alert, type Severity } from './alert.ts'

export type { Alert }

/**
 * The rows of the notification log that a notifier works on. Who claims and settles is the notifier itself, on whichever
 * node it runs, one post at a time.
 */

/** So many of its alerts a post lists at most; the others are counted. Slack takes no more than 24, with two blocks each. */
export const MAX_LISTED = 20

export interface PostRequest {
  /** The notifier. */
  readonly instance: string
  /** Of the configuration with which it was started: with another one than the saved one it posts nothing. */
  readonly generation: string
  /** What it posts: that with which it was started. */
  readonly format: string
  /** Where it posts, as `addressDigest` has it: alerts that were posted elsewhere begin no cooldown. */
  readonly address: string
  readonly owner: string
  readonly leaseSeconds: number
  /** So long after a post, another alert with the same key is left out; 0 for never. */
  readonly cooldownSeconds: number
  /** So long the oldest alert waits for others that share its post; 0 for a post each. */
  readonly groupSeconds: number
}

/** A post that is ours until its lease ends. */
export interface ClaimedPost {
  /** The row that carries the post; it stays the same however often it is repeated. */
  readonly id: number
  /** Names the post to its receiver, the same in each repeat and in no other database: the row's number, and a UUID. */
  readonly webhookId: string
  readonly fencing: number
  /** 1 for the first. */
  readonly attempts: number
  readonly test: boolean
  /** The worst of all alerts that it stands for, also of those that are not listed. */
  readonly severity: Severity
  /**
   * At most MAX_LISTED: the worst first, of those the first of each dedupe key before its repeats, of those the oldest. Those of a
   * repeated post are the same.
   */
  readonly alerts: readonly Alert[]
  /** How many alerts it stands for. */
  readonly count: number
}

export interface PostClaim {
  readonly post: ClaimedPost | null
  /** After how long there may be something to do; null when nothing waits. */
  readonly lookAgainSeconds: number | null
}

export type PostOutcome =
  | { readonly outcome: 'delivered' }
  | {
      readonly outcome: 'retry'
      readonly error: string
      /** After so long it is repeated, or as soon as another post is delivered. */
      readonly delaySeconds: number
      /** So long nothing but tests is posted. */
      readonly restSeconds: number
    }
  | {
      readonly outcome: 'failed'
      readonly error: string
      /** The same; left out: it goes on at once. */
      readonly restSeconds?: number
    }

interface ClaimRow {
  readonly id: number | null
  readonly post_id: string
  readonly fencing: number
  readonly attempts: number
  readonly test: boolean
  readonly count: number
  readonly look_again: number | null
}

/**
 * Claims what this notifier has to post next: a test, then a repeat that is due, then what has waited longest. What its
 * cooldown leaves out is settled on the way, and what has the key of an alert that waits for its repeat waits for the
 * outcome of that. While a post is under way anywhere there is nothing, and while the notifier rests nothing but tests.
 * An owner makes one post at a time: who claims again gets what it has claimed already, as the answer must have been lost.
 */
export async function claimPost(on: Queryable, request: PostRequest): Promise<PostClaim> {
  const { instance, generation, format, address, owner, leaseSeconds, cooldownSeconds, groupSeconds } =
    request
  const [row] = await query<ClaimRow>(
    on,
    'select * from claim_post($1, $2, $3, $4, $5, $6, $7, $8, $9)',
    [instance, generation, format, address, owner, leaseSeconds, cooldownSeconds, groupSeconds, MAX_LISTED],
    'claim-post',
  )
  if (row === undefined || row.id === null) return { post: null, lookAgainSeconds: row?.look_again ?? null }
  crashPoint('notification.claimed')
  const { id, post_id, fencing, attempts, test, count } = row
  const alerts = await query<Alert>(on, ALERTS_OF_POST, [id], 'alerts-of-post')
  const [worst] = alerts
  if (worst === undefined) throw new Error(`The notification ${id} has no alert`)
  return {
    post: {
      id,
      webhookId: `${id}-${post_id}`,
      fencing,
      attempts,
      test,
      severity: worst.severity,
      alerts,
      count,
    },
    lookAgainSeconds: null,
  }
}

const ALERTS_OF_POST = `
select ${ALERT_COLUMNS} from (
  select n.place, n.alert_id from notification n where n.id = $1 and n.place is not null
  union all
  select n.place, n.alert_id from notification n where n.carrier_id = $1 and n.place is not null
) n join alert a on a.id = n.alert_id
order by n.place`

/** Holds the claim of a post that takes long for so many seconds from now on. False: it was lost. */
export async function renewPost(
  on: Queryable,
  claimed: Pick<ClaimedPost, 'id' | 'fencing'>,
  leaseSeconds: number,
): Promise<boolean> {
  const [row] = await query<{ held: boolean }>(
    on,
    'select renew_post($1, $2, $3) as held',
    [claimed.id, claimed.fencing, leaseSeconds],
    'renew-post',
  )
  return row?.held ?? false
}

/**
 * How a post ended. False: the claim was lost, and nothing is changed. A test is not repeated: its retry is a failure. When
 * one was delivered, whatever waits to be repeated is due.
 */
export async function settlePost(
  on: Queryable,
  claimed: Pick<ClaimedPost, 'id' | 'fencing'>,
  outcome: PostOutcome,
): Promise<boolean> {
  const [row] = await query<{ settled: boolean }>(
    on,
    'select settle_post($1, $2, $3, $4, $5, $6) as settled',
    [
      claimed.id,
      claimed.fencing,
      outcome.outcome,
      'error' in outcome ? outcome.error : null,
      'delaySeconds' in outcome ? outcome.delaySeconds : null,
      'restSeconds' in outcome ? outcome.restSeconds : null,
    ],
    'settle-post',
  )
  crashPoint('notification.settled')
  return row?.settled ?? false
}

/** Takes back the claims of owners that are gone for certain: those whose names begin so. Answers how many. */
export async function takeBackPosts(on: Queryable, ownerPrefix: string): Promise<number> {
  const [row] = await query<{ count: number }>(on, 'select take_back_posts($1) as count', [ownerPrefix])
  return row?.count ?? 0
}

/** A notifier that was started repeats what waits for it at once: what kept it from being taken may be mended. */
export async function wakeRepeats(on: Queryable, instance: string): Promise<void> {
  await query(on, 'select wake_repeats($1)', [instance])
}
