import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer as createHttpsServer, type ServerOptions } from 'node:https'
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net'
import type { Teardown } from './database.ts'

/** A partner's server on a free port of loopback; it ends with the test. */
export interface PartnerServer {
  readonly port: number
  /** Of those that still hold a connection. */
  readonly connections: ReadonlySet<Socket>
}

/** With `asked`, that answers a request which asks by its headers whether its body is wanted. */
export function httpServer(
  t: Teardown,
  answer: RequestListener,
  asked?: RequestListener,
): Promise<PartnerServer> {
  const server = createHttpServer(answer)
  if (asked !== undefined) server.on('checkContinue', asked)
  return listening(t, server)
}

export function httpsServer(
  t: Teardown,
  tls: ServerOptions,
  answer: RequestListener,
): Promise<PartnerServer> {
  const server = createHttpsServer(tls, answer)
  // A client that gives up a handshake is no failure of the test.
  server.on('tlsClientError', () => undefined)
  return listening(t, server)
}

export function tcpServer(t: Teardown, meet: (socket: Socket) => void): Promise<PartnerServer> {
  return listening(t, createTcpServer(meet))
}

/** Takes connections and all that they say, and says nothing. */
export function silentServer(t: Teardown): Promise<PartnerServer> {
  // What is not read hides the end of the connection.
  return tcpServer(t, (socket) => socket.resume())
}

async function listening(t: Teardown, server: Server): Promise<PartnerServer> {
  const connections = new Set<Socket>()
  server.on('connection', (socket) => {
    connections.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => connections.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of connections) socket.destroy()
    await closed
  })
  const { port } = server.address() as AddressInfo
  return { port, connections }
}
