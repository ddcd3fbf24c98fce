import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Log } from '../../../runtime/log.ts'

/** Lines in one window; anybody who reaches the port can cause them. */
const MAX_LINES = 20
const WINDOW_MS = 60_000
const MAX_SUBJECT_CHARACTERS = 300

/** Tells in the log of clients that were turned away in TLS, so that a partner's wrong certificate can be found. */
export class TlsRefusals {
  readonly #log: Log
  #windowFromMs = -Infinity
  #lines = 0

  constructor(log: Log) {
    this.#log = log
  }

  /** To be called before the socket is destroyed by us, for then nothing can be asked of it. */
  tell(socket: TLSSocket, error: NodeJS.ErrnoException | null): void {
    const nowMs = performance.now()
    if (nowMs - this.#windowFromMs >= WINDOW_MS) {
      this.#windowFromMs = nowMs
      this.#lines = 0
    }
    this.#lines += 1
    if (this.#lines > MAX_LINES) return
    // A code, whatever its type says.
    const code: unknown = socket.authorizationError
    const subject = socket.getPeerX509Certificate()?.subject.slice(0, MAX_SUBJECT_CHARACTERS)
    this.#log.warn(
      {
        address: addressOf(socket),
        reason: typeof code === 'string' ? code : (error?.code ?? error?.message ?? 'unknown'),
        ...(subject === undefined ? {} : { subject }),
        ...(this.#lines < MAX_LINES ? {} : { note: 'more of them in the next minute are not told' }),
      },
      'a client was turned away in TLS',
    )
  }
}

/** One that Node.js has closed itself for its certificate knows its address only by the connection below. */
function addressOf(socket: TLSSocket): string | undefined {
  const { _parent: below } = socket as { _parent?: Socket | null }
  return socket.remoteAddress ?? below?.remoteAddress
}
