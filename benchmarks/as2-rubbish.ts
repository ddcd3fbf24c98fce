import { randomBytes, randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { HeaderList } from '../runtime/mime/headers.ts'

/**
 * Pours rubbish into a receiver over a few connections, each kind in turn, as a process of its own. Whatever is answered,
 * and whenever the connection is closed, the next one follows.
 */

export interface RubbishRun {
  readonly url: string
  readonly connections: number
  readonly seconds: number
  /** Of a good message, without its Message-ID. */
  readonly headers: HeaderList
  readonly body: Buffer
  /** The body of a message that expands to a thousand times its size. */
  readonly bomb: Buffer
}

export interface RubbishFigures {
  /** By kind: sent, and answered with whatever status. */
  readonly sent: Readonly<Record<string, number>>
  readonly answered: Readonly<Record<string, number>>
}

const RANDOM_BYTES = 64 * 1024
const HUGE_HEADER_BYTES = 128 * 1024
const NESTING = 64 * 1024
const ANSWER_LIMIT_MS = 30_000

type Kind = (run: RubbishRun) => readonly Buffer[]

const KINDS: Readonly<Record<string, Kind>> = {
  random_bytes: () => [randomBytes(RANDOM_BYTES)],
  huge_headers: (run) => {
    const line = `X-${'a'.repeat(500)}: ${'b'.repeat(500)}\r\n`
    return [Buffer.from(`${requestLine(run)}${line.repeat(HUGE_HEADER_BYTES / line.length)}\r\n`)]
  },
  headers_alone: (run) => [Buffer.from(`${requestLine(run)}Content-Length: 0\r\n\r\n`)],
  broken_cms: (run) => {
    const body = Buffer.from(run.body)
    for (let flips = 0; flips < 10; flips += 1) body[randomInt(body.length)] = randomInt(256)
    return post(run, run.headers, body)
  },
  truncated_cms: (run) => post(run, run.headers, run.body.subarray(0, randomInt(run.body.length))),
  random_cms: (run) => post(run, run.headers, randomBytes(RANDOM_BYTES)),
  nested_cms: (run) => post(run, run.headers, Buffer.alloc(NESTING, '3080', 'hex')),
  zip_bomb: (run) =>
    post(
      run,
      run.headers.map(([name, value]) =>
        name.toLowerCase() === 'content-type'
          ? [name, 'application/pkcs7-mime; smime-type=compressed-data']
          : [name, value],
      ),
      run.bomb,
    ),
}

function requestLine({ url }: RubbishRun): string {
  const { host, pathname } = new URL(url)
  return `POST ${pathname} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n`
}

function post(run: RubbishRun, headers: HeaderList, body: Buffer): Buffer[] {
  const fields = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  const own = `Message-ID: <${randomUUID()}@rubbish>\r\nContent-Length: ${body.length}\r\n`
  return [Buffer.from(`${requestLine(run)}${fields}${own}\r\n`, 'latin1'), body]
}

/** Whether anything was answered before the connection ended. */
async function send(url: string, parts: readonly Buffer[]): Promise<boolean> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  const closed = once(socket, 'close')
  closed.catch(() => undefined)
  let answered = false
  socket.on('data', () => (answered = true))
  // The receiver may close while there is still something to send.
  socket.on('error', () => undefined)
  socket.setTimeout(ANSWER_LIMIT_MS, () => socket.destroy(new Error('No answer')))
  for (const part of parts) socket.write(part)
  await closed.catch(() => undefined)
  return answered
}

async function pour(run: RubbishRun): Promise<RubbishFigures> {
  const kinds = Object.entries(KINDS)
  const sent: Record<string, number> = Object.fromEntries(kinds.map(([name]) => [name, 0]))
  const answered: Record<string, number> = { ...sent }
  const endMs = performance.now() + run.seconds * 1000
  let next = 0
  const drive = async (): Promise<void> => {
    while (performance.now() < endMs) {
      const [name, make] = kinds[next++ % kinds.length] ?? ['', () => []]
      sent[name] = (sent[name] ?? 0) + 1
      if (await send(run.url, make(run))) answered[name] = (answered[name] ?? 0) + 1
    }
  }
  await Promise.all(Array.from({ length: run.connections }, drive))
  return { sent, answered }
}

process.on('message', (run: RubbishRun) => {
  pour({ ...run, body: Buffer.from(run.body), bomb: Buffer.from(run.bomb) }).then(
    (figures) => process.send?.({ figures }),
    (error: unknown) => process.send?.({ failure: String(error) }),
  )
})
process.on('disconnect', () => process.exit(0))
