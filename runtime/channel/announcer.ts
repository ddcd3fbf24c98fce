import type { MessagePort } from 'node:worker_threads'
import { CreditWindow } from './credit.ts'
import type { Announcement, Credit } from './protocol.ts'

interface Waiting {
  left: number
  readonly resolve: () => void
}

/**
 * A way to one target. `sought`: the supervisor was asked and has not answered. `absent`: the target does not run;
 * the supervisor will introduce it when it does. `open`: its port is here.
 */
type Line =
  | { readonly kind: 'sought' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'open'; readonly port: MessagePort; readonly credit: CreditWindow }

interface Way {
  line: Line
  /** In the order of the calls. */
  waiting: Waiting[]
}

export interface AnnouncerOptions {
  /** Deliveries outstanding on one channel. */
  readonly window: number
  /** Asks the supervisor for an introduction. */
  readonly seek: (target: string) => void
  /** When it fires, nothing waits for credit any more. */
  readonly signal: AbortSignal
}

/** The source's end of the channels to its targets. */
export class Announcer {
  readonly #options: AnnouncerOptions
  readonly #ways = new Map<string, Way>()

  constructor(options: AnnouncerOptions) {
    this.#options = options
    options.signal.addEventListener('abort', () => {
      for (const way of this.#ways.values()) release(way)
    })
  }

  /**
   * Tells a target that `count` deliveries wait. Resolves when all of them are told, in the order of the calls, which
   * waits for credit; or at once when the target does not run: the database has the work.
   */
  announce(target: string, count: number): Promise<void> {
    if (!Number.isSafeInteger(count) || count < 0) {
      return Promise.reject(new RangeError(`A count of deliveries must be a whole number, not ${count}`))
    }
    if (count === 0) return Promise.resolve()
    const way = this.#wayTo(target)
    if (way.line.kind === 'absent') return Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    way.waiting.push({ left: count, resolve })
    pump(way)
    if (this.#options.signal.aborted) release(way)
    return promise
  }

  /** The supervisor's word on a target: a port to it, or null while it does not run. */
  introduce(target: string, port: MessagePort | null): void {
    const way = this.#wayTo(target)
    const previous = way.line
    if (previous.kind === 'open') {
      // A new thread of the target: the end of the old one may be told later.
      previous.port.close()
      release(way)
    }
    if (port === null) {
      way.line = { kind: 'absent' }
      release(way)
      return
    }
    const line = { kind: 'open', port, credit: new CreditWindow(this.#options.window) } as const
    way.line = line
    port.on('message', (message: Credit) => {
      line.credit.giveBack(message.count)
      if (way.line === line) pump(way)
    })
    port.on('close', () => {
      if (way.line !== line) return
      way.line = { kind: 'absent' }
      release(way)
    })
    pump(way)
  }

  #wayTo(target: string): Way {
    const known = this.#ways.get(target)
    if (known !== undefined) return known
    const way: Way = { line: { kind: 'sought' }, waiting: [] }
    this.#ways.set(target, way)
    this.#options.seek(target)
    return way
  }
}

function pump(way: Way): void {
  if (way.line.kind !== 'open') return
  const { port, credit } = way.line
  for (;;) {
    const first = way.waiting[0]
    if (first === undefined) return
    const count = credit.take(first.left)
    if (count > 0) port.postMessage({ kind: 'announcement', count } satisfies Announcement)
    first.left -= count
    if (first.left > 0) return
    way.waiting.shift()
    first.resolve()
  }
}

function release(way: Way): void {
  const waiting = way.waiting
  way.waiting = []
  for (const { resolve } of waiting) resolve()
}
