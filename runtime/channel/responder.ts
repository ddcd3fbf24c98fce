import { toErrorData } from '../errors.ts'
import type { Cancellation, Reply, Request } from './protocol.ts'

/** Carries one request out. The signal fires when nobody waits for the reply any more. */
export type RequestHandler = (body: unknown, signal: AbortSignal) => Promise<unknown>

/** The answering side of a channel: exactly one reply for each request, whatever the handler does. */
export class Responder {
  readonly #open = new Map<number, AbortController>()
  readonly #post: (reply: Reply) => void
  readonly #handle: RequestHandler

  constructor(post: (reply: Reply) => void, handle: RequestHandler) {
    this.#post = post
    this.#handle = handle
  }

  async answer({ id, body }: Request): Promise<void> {
    const controller = new AbortController()
    this.#open.set(id, controller)
    try {
      const value = await this.#handle(body, controller.signal)
      // Throws when the value cannot be cloned: then that is the reply.
      this.#post({ kind: 'reply', id, ok: true, value })
    } catch (error) {
      this.#post({ kind: 'reply', id, ok: false, error: toErrorData(error) })
    } finally {
      this.#open.delete(id)
    }
  }

  cancel({ id }: Cancellation): void {
    this.#open.get(id)?.abort()
  }
}
