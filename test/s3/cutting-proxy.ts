import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { ReservedPort } from '../support/reserved-port.ts'
import type { Teardown } from '../support/database.ts'

/** A network in front of a server that cuts each connection off after so many bytes of its answers. */
export class CuttingProxy {
  /** Connections that were cut. */
  cuts = 0
  #limitBytes: number
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #clients = new Set<Socket>()

  private constructor(to: ReservedPort, limitBytes: number) {
    this.#limitBytes = limitBytes
    this.#server = createServer((socket) => this.#pass(socket, to))
  }

  static async start(t: Teardown, to: ReservedPort, limitBytes: number): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(to, limitBytes)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    t.teardown(async () => {
      for (const socket of proxy.#sockets) socket.destroy()
      proxy.#server.close()
    })
    return proxy
  }

  get endpoint(): string {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('The proxy does not listen')
    return `http://127.0.0.1:${address.port}`
  }

  /** Connections from clients that are open. */
  get connections(): number {
    return this.#clients.size
  }

  /** Of connections that are made from now on. */
  set limitBytes(bytes: number) {
    this.#limitBytes = bytes
  }

  #pass(socket: Socket, to: ReservedPort): void {
    const limitBytes = this.#limitBytes
    const server = connect(to)
    for (const [one, other] of [
      [socket, server],
      [server, socket],
    ] as const) {
      this.#sockets.add(one)
      one.on('error', () => other.destroy())
      one.once('close', () => {
        this.#sockets.delete(one)
        other.destroy()
      })
    }
    this.#clients.add(socket)
    socket.once('close', () => this.#clients.delete(socket))
    socket.pipe(server)
    let passed = 0
    server.on('data', (chunk: Buffer) => {
      passed += chunk.length
      if (passed > limitBytes) {
        this.cuts += 1
        socket.destroy()
      } else if (!socket.write(chunk)) {
        server.pause()
        socket.once('drain', () => server.resume())
      }
    })
  }
}
