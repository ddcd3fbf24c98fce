import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { isUnavailable } from '../postgres/unavailable.ts'
import type { NewAuditEvent } from './new-audit-event.ts'

/** More than anybody does by hand while a database is away. */
const MAX_WAITING = 1_000
const PAUSE_MS = 2_000

export type RequestLog = Pick<Log, 'warn' | 'error'>
type Write = (caller: Caller, event: NewAuditEvent) => Promise<void>

/**
 * Events of what has happened already and cannot be taken back, such as the stop of an instance: while the database is
 * away they wait here, in their order, and have the time at which they are written. An end of the process meanwhile
 * leaves the log lines alone.
 */
export class LateEvents {
  readonly #write: Write
  readonly #waiting: { readonly caller: Caller; readonly event: NewAuditEvent; readonly log: RequestLog }[] =
    []

  constructor(write: Write) {
    this.#write = write
  }

  /** Throws for every other failure than an outage, and when too many wait. */
  async record(caller: Caller, event: NewAuditEvent, log: RequestLog): Promise<void> {
    if (this.#waiting.length === 0) {
      try {
        await this.#write(caller, event)
        return
      } catch (error) {
        if (!isUnavailable(error)) throw error
      }
    }
    const { action, recordId } = event
    if (this.#waiting.length >= MAX_WAITING) throw new Error('Too many audit events wait for the database')
    log.warn({ action, record: recordId, caller: caller.name }, 'the audit event waits for the database')
    this.#waiting.push({ caller, event, log })
    if (this.#waiting.length === 1) this.#tryLater()
  }

  #tryLater(): void {
    setTimeout(() => void this.#writeWaiting(), PAUSE_MS).unref()
  }

  async #writeWaiting(): Promise<void> {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      try {
        await this.#write(next.caller, next.event)
      } catch (error) {
        if (isUnavailable(error)) return this.#tryLater()
        const { action, recordId } = next.event
        next.log.error({ reason: reasonOf(error), action, record: recordId }, 'the audit event is lost')
      }
      this.#waiting.shift()
    }
  }
}
