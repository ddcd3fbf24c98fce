import { randomUUID } from 'node:crypto'
import type { Pool } from 'pg'
import { Gathered } from '../../runtime/channel/gathered.ts'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import type { NotificationListener } from '../postgres/listener.ts'
import { execute } from '../postgres/pool.ts'

const CHANNEL = 'waybill_deliveries'

export interface AnnouncementsOptions {
  readonly pool: Pool
  readonly listener: NotificationListener
  readonly log: Log
  /** Another process has made deliveries for a target. */
  readonly heard: (target: string) => void
  /** What others said may have been lost. */
  readonly look: () => void
}

/**
 * Tells the other processes of a database that deliveries wait for a target, and hears it from them. A hint, gathered
 * to a few a second however many messages come: the clock announces again what nobody took.
 */
export class Announcements {
  /** Of this process: it has told its own targets already. */
  readonly #sender = randomUUID()
  readonly #options: AnnouncementsOptions
  readonly #gathered: Gathered
  readonly #unsubscribe: () => void

  constructor(options: AnnouncementsOptions) {
    this.#options = options
    this.#gathered = new Gathered((target) => void this.#notify(target))
    this.#unsubscribe = options.listener.subscribe(CHANNEL, (payload) => this.#hear(payload))
  }

  tell(target: string): void {
    this.#gathered.note(target)
  }

  stop(): void {
    this.#unsubscribe()
  }

  async #notify(target: string): Promise<void> {
    const { pool, log } = this.#options
    const payload = `${this.#sender} ${target}`
    await execute(pool, 'select pg_notify($1, $2)', [CHANNEL, payload], 'notify').catch((error: unknown) =>
      log.debug({ reason: reasonOf(error) }, 'Cannot tell other nodes of deliveries'),
    )
  }

  #hear(payload: string | null): void {
    if (payload === null) return this.#options.look()
    const [sender = '', target = ''] = payload.split(' ', 2)
    if (sender !== this.#sender && target !== '') this.#options.heard(target)
  }
}
