import type { Clock } from '../clock.ts'
import { fromErrorData, WaybillError } from '../errors.ts'
import type { Cancellation, Reply, Request } from './protocol.ts'

/** How long and for whom a request waits. */
export interface RequestOptions {
  readonly timeoutMs: number
  /** Fires when nobody wants the reply any more. */
  readonly signal?: AbortSignal
}

interface Pending {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
}

/**
 * The asking side of a channel. Each request ends exactly once: with its reply, with INSTANCE_UNAVAILABLE when the
 * time is over or the other side ends, or with the signal's reason.
 */
export class Requests {
  readonly #pending = new Map<number, Pending>()
  readonly #post: (message: Request | Cancellation) => void
  readonly #clock: Clock
  readonly #maxPending: number
  #lastId = 0
  #closed: Error | null = null

  constructor(options: {
    readonly post: (message: Request | Cancellation) => void
    readonly clock: Clock
    readonly maxPending: number
  }) {
    this.#post = options.post
    this.#clock = options.clock
    this.#maxPending = options.maxPending
  }

  async send(body: unknown, { timeoutMs, signal }: RequestOptions): Promise<unknown> {
    signal?.throwIfAborted()
    if (this.#closed !== null) throw this.#closed
    if (this.#pending.size >= this.#maxPending) {
      throw new WaybillError(
        'INSTANCE_UNAVAILABLE',
        `The instance has ${this.#maxPending} unanswered requests`,
      )
    }
    const id = ++this.#lastId
    // First the post: a body that cannot be cloned throws here and leaves nothing behind.
    this.#post({ kind: 'request', id, body })
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#pending.set(id, { resolve, reject })
    const giveUp = (reason: Error): void => {
      this.#post({ kind: 'cancellation', id })
      reject(reason)
    }
    const cancelTimer = this.#clock.after(timeoutMs, () =>
      giveUp(new WaybillError('INSTANCE_UNAVAILABLE', `The instance did not answer within ${timeoutMs} ms`)),
    )
    const abort = (): void => giveUp(abortReason(signal))
    signal?.addEventListener('abort', abort, { once: true })
    try {
      return await promise
    } finally {
      this.#pending.delete(id)
      cancelTimer()
      signal?.removeEventListener('abort', abort)
    }
  }

  /** A reply that nobody waits for any more is dropped. */
  settle(reply: Reply): void {
    const pending = this.#pending.get(reply.id)
    if (reply.ok) pending?.resolve(reply.value)
    else pending?.reject(fromErrorData(reply.error))
  }

  /** The other side has ended: rejects what waits and all that is asked from now on. */
  close(reason: string): void {
    const closed = new WaybillError('INSTANCE_UNAVAILABLE', reason)
    this.#closed = closed
    for (const { reject } of this.#pending.values()) reject(closed)
  }
}

function abortReason(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason
  return reason instanceof Error ? reason : new Error('The request was aborted', { cause: reason })
}
