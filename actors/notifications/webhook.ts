import { randomUUID } from 'node:crypto'
import type { Pool } from 'pg'
import { crashPoint } from '../../runtime/crash-point.ts'
import { Rounds } from '../../runtime/rounds.ts'
import type { ActorContext, RunningActor } from '../../runtime/thread/actor.ts'
import type { ProcessFacts } from '../../storage/access.ts'
import { addressDigest } from '../../storage/alerts/address.ts'
import {
  claimPost,
  renewPost,
  settlePost,
  takeBackPosts,
  wakeRepeats,
  type ClaimedPost,
  type PostOutcome,
} from '../../storage/alerts/outbox.ts'
import { openPool } from '../../storage/postgres/pool.ts'
import { HttpClient } from '../http/client.ts'
import { Posting } from './posting.ts'
import type { NotificationWebhookSettings } from './settings.ts'

/** A post under way when the instance stops may end so long; then it is cut off, and made again by the next start. */
const STOP_GRACE_MS = 20_000
/** So often it is looked whether there is something to post: an alert is told within two seconds. */
const IDLE_MS = 1_000
const SHORTEST_PAUSE_MS = 50
/** A node that dies while it posts holds the notifier up for so long on the others. */
const LEASE_SECONDS = 20
/** Exchange time may go on by 15 seconds at once, after an outage of the database: this leaves time to renew it then. */
const RENEWAL_MS = 2_000
/** How long after a failure of the database the next try waits. */
const DATABASE_PAUSE_MS = 1_000

/** Runs a `notification-webhook`: posts the alerts of its rows in the notification log, one post after the other. */
export default async function start(
  context: ActorContext<NotificationWebhookSettings>,
): Promise<RunningActor> {
  const { settings, name, log, clock } = context
  const { databaseUrl, product, publicUrl } = context.process as ProcessFacts
  const pool = openPool({ url: databaseUrl, size: 1, applicationName: `waybill ${name}`, log })
  // Between alerts pass hours: what stands between us and the server may have forgotten a connection that was kept.
  const client = new HttpClient(1, { keepAlive: false })
  const cutOff = new AbortController()
  const { signal } = cutOff
  const posting = new Posting({ client, name, product, publicUrl, settings, clock, signal })
  const notifier = new Notifier({ context, pool, posting, signal })
  const rounds = Rounds.start({
    name: 'notifications',
    clock,
    log,
    pauseAfterFailureMs: DATABASE_PAUSE_MS,
    round: () => notifier.round(),
  })
  context.onAnnouncement(() => rounds.wake())
  return {
    stop: async () => {
      const grace = clock.after(STOP_GRACE_MS, () =>
        cutOff.abort(new Error('The instance was stopped before the answer came')),
      )
      await rounds.stop()
      grace()
      client.close()
      await pool.end()
    },
  }
}

interface NotifierOptions {
  readonly context: ActorContext<NotificationWebhookSettings>
  readonly pool: Pool
  readonly posting: Posting
  /** Nothing is waited for any more. */
  readonly signal: AbortSignal
}

class Notifier {
  readonly #options: NotifierOptions
  /** With it the names of all owners of this instance begin, those of former runs too. */
  readonly #ownerPrefix: string
  readonly #owner: string
  readonly #address: string
  #hasTakenBack = false

  constructor(options: NotifierOptions) {
    const { context } = options
    const { nodeId, runId, secretKey } = context.process as ProcessFacts
    this.#options = options
    this.#ownerPrefix = `${nodeId}/${context.name}/`
    this.#owner = `${this.#ownerPrefix}${runId}/${randomUUID()}`
    this.#address = addressDigest(secretKey, context.settings.url)
  }

  /** Makes one post, if there is one to be made. Answers how long to wait for the next look. */
  async round(): Promise<number> {
    const { context, pool } = this.#options
    await this.#takeBack()
    const { post, lookAgainSeconds } = await claimPost(pool, {
      instance: context.name,
      generation: context.generation,
      format: context.settings.format,
      address: this.#address,
      owner: this.#owner,
      leaseSeconds: LEASE_SECONDS,
      cooldownSeconds: context.settings.cooldown_minutes * 60,
      groupSeconds: context.settings.group_seconds,
    })
    if (post === null) return pauseMs(lookAgainSeconds)
    const outcome = await this.#post(post)
    crashPoint('notification.posted')
    await this.#settle(post, outcome)
    return 0
  }

  /** Before the first claim: a post that was cut off need not wait for the end of its lease. */
  async #takeBack(): Promise<void> {
    if (this.#hasTakenBack) return
    const { context, pool } = this.#options
    const posts = await takeBackPosts(pool, this.#ownerPrefix)
    await wakeRepeats(pool, context.name)
    this.#hasTakenBack = true
    if (posts > 0) context.log.warn({ posts }, 'took back what a predecessor left')
  }

  async #post(post: ClaimedPost): Promise<PostOutcome> {
    const over = new AbortController()
    const holding = this.#hold(post, over.signal)
    try {
      return await this.#options.posting.post(post)
    } finally {
      over.abort()
      await holding
    }
  }

  /** Renews the claim while the webhook lets us wait. Whether it was lost meanwhile is told by the settlement. */
  async #hold(post: ClaimedPost, over: AbortSignal): Promise<void> {
    const { context, pool } = this.#options
    const { log, clock } = context
    for (;;) {
      await clock.sleep(RENEWAL_MS, over).catch(() => undefined)
      if (over.aborted) return
      await renewPost(pool, post, LEASE_SECONDS).catch((error: unknown) =>
        log.debug({ notification: post.id, err: error }, 'cannot renew the claim of the post'),
      )
    }
  }

  /** The outcome is known and only the database is missing: keeps trying; the fencing number guards a late success. */
  async #settle(post: ClaimedPost, outcome: PostOutcome): Promise<void> {
    const { context, pool, signal } = this.#options
    const { log, clock } = context
    const facts = { notification: post.id, alerts: post.count, attempt: post.attempts }
    for (;;) {
      try {
        const held = await settlePost(pool, post, outcome)
        if (!held) log.warn(facts, 'the claim was lost before it was settled')
        else if (outcome.outcome === 'delivered') log.debug(facts, 'posted')
        else log.warn({ ...facts, ...outcome }, 'not posted')
        return
      } catch (error) {
        if (signal.aborted)
          return log.warn({ ...facts, err: error }, 'cannot settle the post, its lease will end')
        log.error({ ...facts, err: error }, 'cannot settle the post')
        await clock.sleep(DATABASE_PAUSE_MS, signal).catch(() => undefined)
      }
    }
  }
}

/** Not longer than an alert may wait that is raised meanwhile. */
function pauseMs(lookAgainSeconds: number | null): number {
  if (lookAgainSeconds === null) return IDLE_MS
  return Math.min(IDLE_MS, Math.max(SHORTEST_PAUSE_MS, lookAgainSeconds * 1000))
}
