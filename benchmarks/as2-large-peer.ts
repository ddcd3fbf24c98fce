import { once } from 'node:events'
import { createReadStream, createWriteStream } from 'node:fs'
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { pairsOf } from './header-pairs.ts'

/** The partner of one large message, as a process of its own: writes the body that it is sent to a file, and posts it. */

export type PeerRun =
  /** Listens for one message, whose body goes to the file. */
  | { readonly kind: 'listen'; readonly file: string }
  /** Waits until it is there. */
  | { readonly kind: 'captured' }
  | {
      readonly kind: 'post'
      readonly url: string
      readonly headers: readonly (readonly [string, string])[]
      readonly file: string
    }

export interface PeerFigures {
  /** Where it listens. */
  readonly url: string
  readonly status: number
  /** Of the captured message, or of the answer to what was posted. */
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Buffer
  readonly seconds: number
}

const CHUNK_BYTES = 1024 * 1024
const NOTHING: PeerFigures = { url: '', status: 0, headers: [], body: Buffer.alloc(0), seconds: 0 }

let captured: Promise<PeerFigures> | null = null

async function listen(file: string): Promise<PeerFigures> {
  const { promise, resolve, reject } = Promise.withResolvers<PeerFigures>()
  captured = promise
  captured.catch(() => undefined)
  const capture = async (message: IncomingMessage, response: ServerResponse): Promise<PeerFigures> => {
    const beganMs = performance.now()
    await pipeline(message, createWriteStream(file, { highWaterMark: CHUNK_BYTES }))
    response.writeHead(200, { 'Content-Length': 0 }).end()
    server.close()
    const seconds = (performance.now() - beganMs) / 1000
    return { ...NOTHING, headers: pairsOf(message.rawHeaders), seconds }
  }
  const server = createServer((message, response) => void capture(message, response).then(resolve, reject))
  server.listen({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  return { ...NOTHING, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/as2` }
}

/** Seconds are those from the beginning of the request to the end of its answer. */
async function post({ url, headers, file }: Extract<PeerRun, { kind: 'post' }>): Promise<PeerFigures> {
  const beganMs = performance.now()
  const posting = request(url, { method: 'POST', headers: [...headers, ['Host', new URL(url).host]].flat() })
  const answered = once(posting, 'response') as Promise<[IncomingMessage]>
  // A receiver may answer, and close the connection, before it has everything.
  pipeline(createReadStream(file, { highWaterMark: CHUNK_BYTES }), posting).catch(() => undefined)
  const [response] = await answered
  posting.on('error', () => undefined)
  const body = await buffer(response)
  return {
    ...NOTHING,
    status: response.statusCode ?? 0,
    headers: pairsOf(response.rawHeaders),
    body,
    seconds: (performance.now() - beganMs) / 1000,
  }
}

async function answer(run: PeerRun): Promise<PeerFigures> {
  switch (run.kind) {
    case 'listen':
      return listen(run.file)
    case 'captured':
      return (await captured) ?? NOTHING
    case 'post':
      return post(run)
  }
}

process.on('message', (run: PeerRun) => {
  answer(run).then(
    (figures) => process.send?.({ figures }),
    (error: unknown) => process.send?.({ failure: String(error) }),
  )
})
process.on('disconnect', () => process.exit(0))
