import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { buffer } from 'node:stream/consumers'
import type { Teardown } from '../../support/database.ts'

/** A request that came whole. */
export interface ReceivedRequest {
  readonly method: string
  readonly path: string
  /** Names in lower case; each that came, in its order. */
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Buffer
}

export type Behaviour = (
  request: IncomingMessage,
  response: ServerResponse,
  received: ReceivedRequest[],
) => Promise<void> | void

/** A server that the service posts to. What it does is said per path. */
export interface WebServer {
  readonly url: string
  readonly received: (path: string) => readonly ReceivedRequest[]
  readonly behave: (path: string, behaviour: Behaviour) => void
}

export async function startWebServer(
  t: Teardown,
  tls?: { readonly key: string; readonly cert: string },
): Promise<WebServer> {
  const behaviours = new Map<string, Behaviour>()
  const received = new Map<string, ReceivedRequest[]>()
  const of = (path: string): ReceivedRequest[] => {
    const list = received.get(path) ?? []
    received.set(path, list)
    return list
  }
  const listener: RequestListener = (request, response) => {
    const path = request.url ?? ''
    const behave = behaviours.get(path) ?? answering(200)
    // What a client cuts off is for the test to see by what it received.
    void Promise.resolve(behave(request, response, of(path))).catch(() => response.destroy())
  }
  const server = tls === undefined ? createServer(listener) : createSecureServer(tls, listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    received: of,
    behave: (path, behaviour) => void behaviours.set(path, behaviour),
  }
}

/** Takes the whole request and answers it. Several statuses are for as many requests, the last one for all others. */
export function answering(...statuses: readonly number[]): Behaviour {
  return async (request, response, received) => {
    await take(request, received)
    response.writeHead(statuses[received.length - 1] ?? statuses.at(-1) ?? 200).end('what is dropped')
  }
}

/** Waits for the whole request and notes it. */
export async function take(request: IncomingMessage, received: ReceivedRequest[]): Promise<void> {
  const body = await buffer(request)
  const { rawHeaders: raw, method = '', url = '' } = request
  const headers = Array.from(
    { length: raw.length / 2 },
    (_, index) => [raw[index * 2]?.toLowerCase() ?? '', raw[index * 2 + 1] ?? ''] as const,
  )
  received.push({ method, path: url, headers, body })
}

/** The value of a header that must have come once. */
export function header(request: ReceivedRequest | undefined, name: string): string | undefined {
  const values = (request?.headers ?? []).filter(([each]) => each === name)
  if (values.length > 1) throw new Error(`${name} came ${values.length} times`)
  return values[0]?.[1]
}
