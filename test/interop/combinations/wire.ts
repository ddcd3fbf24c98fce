import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import type { Test } from 'tap'
import { reservePort } from '../../support/reserved-port.ts'

/** What travelled of one message. */
export interface Travelled {
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

/** Stands between sender and receiver, changes nothing, and keeps what passes by the AS2 name of whom it is for. */
export class Wire {
  readonly url: string
  readonly #seen = new Map<string, Travelled>()
  readonly #receiver: URL

  private constructor(url: string, receiver: URL) {
    this.url = url
    this.#receiver = receiver
  }

  static async start(t: Test, receiver: string): Promise<Wire> {
    const place = await reservePort()
    const wire = new Wire(`http://${place.host}:${place.port}/as2`, new URL(receiver))
    const server = createServer((incoming, answer) => {
      void wire.#pass(incoming, answer).catch((error: unknown) => answer.destroy(error as Error))
    })
    server.listen(place)
    await once(server, 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    return wire
  }

  of(partner: string): Travelled {
    const seen = this.#seen.get(partner)
    if (seen === undefined) throw new Error(`Nothing travelled to ${partner}`)
    return seen
  }

  async #pass(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const body = await buffer(incoming)
    const name = String(incoming.headers['as2-to']).replaceAll('"', '')
    this.#seen.set(name, { headers: incoming.headers, body })
    const onward = request(this.#receiver, { method: incoming.method, headers: incoming.rawHeaders })
    onward.end(body)
    const [response] = (await once(onward, 'response')) as [IncomingMessage]
    answer.writeHead(response.statusCode ?? 0, response.rawHeaders)
    answer.end(await buffer(response))
  }
}
