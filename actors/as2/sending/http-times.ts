import type { ClientRequest } from 'node:http'
import type { Progress } from './http-body.ts'

/** A partner that takes less than this in the long run would hold a place for ever. */
const LEAST_BYTES_PER_SECOND = 8 * 1024

export interface TimeLimits {
  /** To the end of the TLS handshake. */
  readonly connectTimeoutMs: number
  /** For the partner to take the next part of the body, and from the last byte sent to the end of the answer. */
  readonly responseTimeoutMs: number
}

type Wait = 'connecting' | 'reading' | 'partner'

/** Ends a request whose next step takes too long, or whose body goes too slowly as a whole. */
export class RequestTimes implements Progress {
  readonly #request: ClientRequest
  readonly #limits: TimeLimits
  readonly #connected = Promise.withResolvers<void>()
  #wait: Wait = 'connecting'
  #timer: NodeJS.Timeout
  #begin = 0
  #takenBytes = 0

  /** `ready` is the event of the socket that ends the connecting. */
  constructor(request: ClientRequest, limits: TimeLimits, ready: 'connect' | 'secureConnect') {
    this.#request = request
    this.#limits = limits
    this.#timer = setTimeout(() => this.#fail(), limits.connectTimeoutMs)
    request.on('socket', (socket) => {
      if (socket.connecting) socket.once(ready, () => this.#connect())
      else this.#connect()
    })
    request.on('finish', () => this.offered())
    request.on('close', () => clearTimeout(this.#timer))
  }

  /** Resolves when the partner is reached; it may never be. */
  get connected(): Promise<void> {
    return this.#connected.promise
  }

  reading(): void {
    this.#goOn('reading')
  }

  offered(): void {
    this.#goOn('partner')
  }

  taken(bytes: number): void {
    this.#takenBytes += bytes
    this.#goOn('partner')
    const { connectTimeoutMs, responseTimeoutMs } = this.#limits
    const allowedMs =
      connectTimeoutMs + 2 * responseTimeoutMs + (this.#takenBytes / LEAST_BYTES_PER_SECOND) * 1000
    if (this.#begin === 0 || performance.now() - this.#begin <= allowedMs) return
    this.#request.destroy(new Error('The partner takes the message too slowly'))
  }

  #connect(): void {
    this.#begin = performance.now()
    this.#wait = 'partner'
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#fail(), this.#limits.responseTimeoutMs)
    this.#connected.resolve()
  }

  #goOn(wait: Wait): void {
    if (this.#wait === 'connecting') return
    this.#wait = wait
    this.#timer.refresh()
  }

  #fail(): void {
    const { connectTimeoutMs, responseTimeoutMs } = this.#limits
    const reasons: Record<Wait, string> = {
      connecting: `No connection within ${connectTimeoutMs / 1000} s`,
      reading: `The next part of the message was not there within ${responseTimeoutMs / 1000} s`,
      partner: `No answer within ${responseTimeoutMs / 1000} s`,
    }
    this.#request.destroy(new Error(reasons[this.#wait]))
  }
}
