import { Socket } from 'node:net'
import pg, { type ClientConfig } from 'pg'

/** For a new connection to be ready. Short: a try that began while the database was away must not outlast that. */
const CONNECT_LIMIT_MS = 3_000

/** How long after the limit a late answer is still looked for: this thread may have stood still, not the database. */
const GRACE_MS = 1_000

/**
 * The class of connections that do not wait for ever. A network may lose a connection so that nobody is told: then a
 * statement would have no answer and no end, and its pool one place less. Here a statement during which nothing moves
 * on the connection for so long ends it: the statement fails, and the pool makes another connection.
 */
export function boundedClient(silenceLimitMs: number): typeof pg.Client {
  return class BoundedClient extends pg.Client {
    /** Statements are open: the server owes an answer. */
    #isOwed = false

    constructor(config: ClientConfig = {}) {
      super({ ...config, connectionTimeoutMillis: CONNECT_LIMIT_MS })
      const { stream } = this.connection
      if (stream instanceof Socket) this.#watch(stream)
      this.on('drain', () => {
        this.#isOwed = false
      })
      const ask = this.query.bind(this) as (...args: unknown[]) => unknown
      // One implementation for all of its overloads.
      Object.assign(this, {
        query: (...args: unknown[]) => {
          this.#isOwed = true
          return ask(...args)
        },
      })
    }

    #watch(socket: Socket): void {
      socket.setTimeout(silenceLimitMs)
      socket.on('timeout', () => {
        if (!this.#isOwed) return
        const heard = socket.bytesRead
        setTimeout(() => {
          if (this.#isOwed && socket.bytesRead === heard) socket.destroy(new DatabaseSilent(silenceLimitMs))
        }, GRACE_MS).unref()
      })
    }
  }
}

/** A statement had no answer. Whether it was carried out is not known. */
class DatabaseSilent extends Error {
  override readonly name = 'DatabaseSilent'

  constructor(silenceLimitMs: number) {
    super(`The database gave no answer within ${(silenceLimitMs + GRACE_MS) / 1000} s`)
  }
}
