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
  /**
   * From now on nothing passes, and nobody is told: connections stay as they are and new ones are taken, as when a
   * network loses packets. Those connections stay dead for ever.
   */
  readonly fallSilent: () => void
  /** New connections pass again. */
  readonly speak: () => void
  /** From now on new connections lead to the server of this URL. */
  readonly leadTo: (databaseUrl: string) => void
}

/** A proxy on a port of loopback before the Unix socket of a database. */
export async function databaseProxy(t: Teardown, databaseUrl: string): Promise<DatabaseProxy> {
  let path = socketOf(databaseUrl)
  let isSilent = false
  const sockets = new Set<Socket>()
  const far = new Set<Socket>()
  const follow = (socket: Socket): void => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  }
  const server = createServer((near) => {
    follow(near)
    // What comes is read and lost.
    if (isSilent) return void near.resume()
    const other = createConnection(path)
    follow(other)
    far.add(other)
    near.pipe(other)
    other.pipe(near)
    near.on('close', () => other.destroy())
    other.on('close', () => {
      // The server lets go of a client that it lost; the client does not learn it.
      if (far.delete(other)) near.destroy()
    })
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
    for (const socket of sockets) socket.destroy()
    await closed
  }
  t.teardown(close)
  const fallSilent = (): void => {
    isSilent = true
    for (const socket of sockets) {
      socket.unpipe()
      if (far.delete(socket)) socket.destroy()
      else socket.resume()
    }
  }
  const url = new URL(databaseUrl)
  url.host = `${place.host}:${place.port}`
  url.search = ''
  return {
    url: url.href,
    close,
    open,
    fallSilent,
    speak: () => {
      isSilent = false
    },
    leadTo: (other) => {
      path = socketOf(other)
    },
  }
}

function socketOf(databaseUrl: string): string {
  const target = new URL(databaseUrl)
  return `${target.searchParams.get('host')}/.s.PGSQL.${target.port}`
}
