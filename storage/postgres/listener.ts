import type pg from 'pg'
import type { Clock } from '../../runtime/clock.ts'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { boundedClient } from './bounded-client.ts'
import { connectionSettings } from './pool.ts'

/**
 * Hears a notification with its payload. Null: notifications may have been lost, so look for yourself; said once when
 * the listening begins, and again after every time without a connection.
 */
export type NotificationHandler = (payload: string | null) => void

export interface NotificationListenerOptions {
  readonly url: string
  readonly clock: Clock
  readonly log: Log
  /** As `pg_stat_activity` shows it. */
  readonly applicationName?: string
  /** How often the connection is asked whether it is still there. */
  readonly checkEveryMs?: number
}

const APPLICATION_NAME = 'waybill listener'
const CHECK_EVERY_MS = 2_000
const ANSWER_LIMIT_MS = 3_000
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 2_000
const BoundedClient = boundedClient(ANSWER_LIMIT_MS)

/**
 * Listens for notifications of the database, on one connection of its own for the whole process. A lost connection is
 * made again, for ever; notifications meanwhile are lost, which every subscriber is told.
 */
export class NotificationListener {
  readonly #options: Required<NotificationListenerOptions>
  readonly #handlers = new Map<string, Set<NotificationHandler>>()
  readonly #stopping = new AbortController()
  readonly #working: Promise<void>
  /** Null while there is no connection. */
  #client: pg.Client | null = null

  private constructor(options: NotificationListenerOptions) {
    this.#options = { checkEveryMs: CHECK_EVERY_MS, applicationName: APPLICATION_NAME, ...options }
    this.#working = this.#work()
  }

  /** Connects in the background. */
  static start(options: NotificationListenerOptions): NotificationListener {
    return new NotificationListener(options)
  }

  /** Handlers must not throw. The answer ends it. */
  subscribe(channel: string, handler: NotificationHandler): () => void {
    const known = this.#handlers.get(channel)
    const handlers = known ?? new Set()
    handlers.add(handler)
    if (known === undefined) this.#handlers.set(channel, handlers)
    const client = this.#client
    if (client !== null) {
      // What fails ends the connection, and the next one begins anew.
      void listenTo(client, channel).then(
        () => handlers.has(handler) && handler(null),
        () => client.end(),
      )
    }
    return () => handlers.delete(handler)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#client?.connection.stream.destroy()
    await this.#working
  }

  async #work(): Promise<void> {
    const { clock, log } = this.#options
    const { signal } = this.#stopping
    let pauseMs = FIRST_PAUSE_MS
    let isLost = false
    while (!signal.aborted) {
      try {
        await this.#listen(() => {
          if (isLost) log.info('Listening for notifications again')
          isLost = false
          pauseMs = FIRST_PAUSE_MS
        })
      } catch (error) {
        if (!signal.aborted && !isLost)
          log.warn({ reason: reasonOf(error) }, 'No connection for notifications')
        isLost = true
      }
      await clock.sleep(pauseMs * (0.5 + Math.random()), signal).catch(() => undefined)
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
    }
  }

  /** One connection, from its beginning to its end, which is always a failure. */
  async #listen(connected: () => void): Promise<never> {
    const { url, clock, checkEveryMs, applicationName } = this.#options
    const { signal } = this.#stopping
    const client = new BoundedClient(connectionSettings({ url, size: 1, applicationName }))
    const ended = Promise.withResolvers<never>()
    ended.promise.catch(() => undefined)
    client.on('error', ended.reject)
    client.on('end', () => ended.reject(new Error('The connection was closed')))
    client.on('notification', ({ channel, payload }) => this.#tell(channel, payload ?? ''))
    const abort = (): void => void client.connection.stream.destroy()
    signal.addEventListener('abort', abort)
    try {
      await client.connect()
      const channels = [...this.#handlers.keys()]
      this.#client = client
      for (const channel of channels) await listenTo(client, channel)
      connected()
      for (const channel of channels) this.#tell(channel, null)
      for (;;) {
        await Promise.race([clock.sleep(checkEveryMs, signal), ended.promise])
        await Promise.race([client.query('select 1'), ended.promise])
      }
    } finally {
      this.#client = null
      signal.removeEventListener('abort', abort)
      client.connection.stream.destroy()
    }
  }

  #tell(channel: string, payload: string | null): void {
    for (const handler of this.#handlers.get(channel) ?? []) handler(payload)
  }
}

async function listenTo(client: pg.Client, channel: string): Promise<void> {
  await client.query(`listen ${client.escapeIdentifier(channel)}`)
}
