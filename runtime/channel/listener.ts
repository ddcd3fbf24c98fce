import type { MessagePort } from 'node:worker_threads'
import { Debts } from './credit.ts'
import type { Announcement, Credit } from './protocol.ts'

/** The target's end of the channels from its sources. */
export class Listener {
  readonly #debts = new Debts<MessagePort>()
  readonly #ports = new Set<MessagePort>()
  /** Repaid and not yet told; one message for each port and turn of the event loop. */
  readonly #repaid = new Map<MessagePort, number>()
  #handler: ((count: number) => void) | null = null
  #flushing = false

  /** There is one handler. Without any, announced work counts as settled, so that nobody waits for it. */
  onAnnouncement(handler: (count: number) => void): void {
    this.#handler = handler
  }

  connect(port: MessagePort): void {
    this.#ports.add(port)
    port.on('message', ({ count }: Announcement) => {
      this.#debts.owe(port, count)
      if (this.#handler === null) this.settled(count)
      else this.#handler(count)
    })
    port.on('close', () => {
      this.#ports.delete(port)
      this.#repaid.delete(port)
      this.#debts.forget(port)
    })
  }

  /** Deliveries that wait without a source's announcement. */
  announced(count: number): void {
    this.#handler?.(count)
  }

  /** Gives credit back for `count` deliveries, never for more than were announced. */
  settled(count: number): void {
    for (const [port, share] of this.#debts.repay(count)) {
      this.#repaid.set(port, (this.#repaid.get(port) ?? 0) + share)
    }
    if (this.#flushing || this.#repaid.size === 0) return
    this.#flushing = true
    setImmediate(() => this.#flush())
  }

  /** Nothing waits: gives back all credit that is outstanding. */
  drained(): void {
    this.settled(this.#debts.total)
  }

  /** Ends all channels; sources that wait for credit are released. */
  close(): void {
    for (const port of this.#ports) port.close()
  }

  #flush(): void {
    this.#flushing = false
    for (const [port, count] of this.#repaid) port.postMessage({ kind: 'credit', count } satisfies Credit)
    this.#repaid.clear()
  }
}
