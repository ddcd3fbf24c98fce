import { once } from 'node:events'
import { createConnection, createServer, type Socket } from 'node:net'
import type { Teardown } from './database.ts'
import { reservePort } from './reserved-port.ts'

/** The way to a database, which a test can block and open again. */
export interface DatabaseProxy {
  /** The URL by which the database is reached through it. */
  readonly url: string
  /** Ends all connections and refuses new ones, as when the server is down. */
  readonly close: () => Promise<void>
  /** Takes connections again, at the same address. */
  readonly open: () => Promise<void>
}

/** A proxy on a port of loopback before the Unix socket of a database. */
export async function databaseProxy(t: Teardown, databaseUrl: string): Promise<DatabaseProxy> {
  const target = new URL(databaseUrl)
  const path = `${target.searchParams.get('host')}/.s.PGSQL.${target.port}`
  const sockets = new Set<Socket>()
  const endAll = (): void => sockets.forEach((socket) => socket.destroy())
  const server = createServer((near) => {
    const far = createConnection(path)
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  })
  const place = await reservePort()
  const open = async (): Promise<void> => {
    server.listen(place)
    await once(server, 'listening')
  }
  await open()
  const close = async (): Promise<void> => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    endAll()
    await closed
  }
  t.teardown(close)
  const url = new URL(databaseUrl)
  url.host = `${place.host}:${place.port}`
  url.search = ''
  return { url: url.href, close, open }
}
