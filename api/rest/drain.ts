import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Clock } from '../../runtime/clock.ts'

/** Ends the server: resolves when no connection is left. */
export type Drain = (graceMs: number) => Promise<void>

/**
 * The server's own end waits for every client: for one that connected and says nothing, and for one that reads or writes
 * slowly. Here what no request is in hand on is closed at once, and the rest when the time is over.
 */
export function drainOf(server: FastifyInstance, clock: Clock): Drain {
  /** Requests in hand by connection. */
  const connections = new Map<Socket, number>()
  let closing = false
  server.server.on('connection', (socket: Socket) => {
    connections.set(socket, 0)
    socket.once('close', () => connections.delete(socket))
  })
  server.server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    if (!connections.has(socket)) return
    connections.set(socket, (connections.get(socket) ?? 0) + 1)
    response.once('close', () => {
      const left = (connections.get(socket) ?? 1) - 1
      if (connections.has(socket)) connections.set(socket, left)
      if (closing && left === 0) socket.destroySoon()
    })
  })
  let closed: Promise<void> | null = null
  return (graceMs) => {
    closed ??= (async () => {
      closing = true
      const over = server.close()
      for (const [socket, inHand] of connections) if (inHand === 0) socket.destroy()
      const cancel = clock.after(graceMs, () => {
        for (const socket of connections.keys()) socket.destroy()
      })
      await over
      cancel()
    })()
    return closed
  }
}
