import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { HeaderList } from '../runtime/mime/headers.ts'
import { formatMic } from '../actors/as2/protocol/mic.ts'
import { readReceipt } from '../actors/as2/protocol/receipt.ts'
import { quantile } from './statistics.ts'

/**
 * Posts one prepared message again and again, each time with a Message-ID of its own, one at a time on each of a few
 * connections, as a process of its own: what it costs is not in the figures of who receives. Every answer must be a 200
 * that says `processed` and names its message; every so often one is verified as a receipt. Runs come over IPC.
 */

/** One run of posts. */
export interface PostRun {
  readonly url: string
  readonly connections: number
  readonly messages: number
  readonly headers: HeaderList
  readonly body: Buffer
  /** Makes the Message-IDs of the run its own. */
  readonly name: string
  /** Of a receiver whose answers are receipts. */
  readonly receipts: { readonly mic: string; readonly signer: Buffer } | null
}

export interface PostFigures {
  readonly messages: number
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Receipts whose signature, MIC and original id were verified. */
  readonly verified: number
  readonly cpuSeconds: number
}

export type PostAnswer = { readonly figures: PostFigures } | { readonly failure: string }

const VERIFY_EVERY = 50

interface Answer {
  readonly head: string
  readonly text: string
}

/** A connection that is kept as long as the receiver keeps it. */
class Connection {
  readonly #url: URL
  #socket: Socket | null = null

  constructor(url: string) {
    this.#url = new URL(url)
  }

  async exchange(head: string, body: Buffer): Promise<Answer> {
    const socket = (this.#socket ??= await this.#open())
    const answer = answerOf(socket)
    socket.cork()
    socket.write(head, 'latin1')
    socket.write(body)
    socket.uncork()
    const { closed, ...rest } = await answer
    if (closed) this.close()
    return rest
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = null
  }

  async #open(): Promise<Socket> {
    const socket = connect({ host: this.#url.hostname, port: Number(this.#url.port), noDelay: true })
    socket.setEncoding('latin1')
    await once(socket, 'connect')
    return socket
  }
}

function answerOf(socket: Socket): Promise<Answer & { readonly closed: boolean }> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer & { closed: boolean }>()
  let received = ''
  const settle = (closed: boolean): void => {
    socket.removeListener('data', onData).removeListener('error', reject).removeListener('close', onClose)
    const end = received.indexOf('\r\n\r\n')
    const head = received.slice(0, end)
    const text = received.slice(end + 4)
    resolve({ head, text, closed: closed || /^connection: *close/im.test(head) })
  }
  const onData = (chunk: string): void => {
    received += chunk
    if (isComplete(received)) settle(false)
  }
  const onClose = (): void => {
    if (/^HTTP\/1\.\d \d{3} [^]*\r\n\r\n/.test(received)) settle(true)
    else reject(new Error(`The receiver closed the connection after ${received.slice(0, 300)}`))
  }
  socket.on('data', onData).once('error', reject).once('close', onClose)
  return promise
}

/** False also for an answer without a length: it ends with its connection. */
function isComplete(answer: string): boolean {
  const end = answer.indexOf('\r\n\r\n')
  if (end < 0) return false
  const head = answer.slice(0, end)
  const length = /^content-length: *(\d+)/im.exec(head)?.[1]
  if (length !== undefined) return answer.length >= end + 4 + Number(length)
  return /^transfer-encoding: *chunked/im.test(head) && answer.endsWith('\r\n0\r\n\r\n')
}

async function post(run: PostRun): Promise<PostFigures> {
  const latenciesMs: number[] = []
  const before = process.cpuUsage()
  let next = 0
  let verified = 0
  const drive = async (): Promise<void> => {
    const connection = new Connection(run.url)
    for (let index = next++; index < run.messages; index = next++) {
      const messageId = `<${run.name}-${index}@load>`
      const sentAt = performance.now()
      const answer = await connection.exchange(headOf(run, messageId), run.body)
      latenciesMs.push(performance.now() - sentAt)
      check(run, answer, messageId)
      if (run.receipts !== null && index % VERIFY_EVERY === 0) {
        await verify(run.receipts, answer, messageId)
        verified += 1
      }
    }
    connection.close()
  }
  const beganMs = performance.now()
  await Promise.all(Array.from({ length: run.connections }, drive))
  const seconds = (performance.now() - beganMs) / 1000
  const { user, system } = process.cpuUsage(before)
  return {
    messages: run.messages,
    seconds,
    p50Ms: quantile(latenciesMs, 0.5),
    p99Ms: quantile(latenciesMs, 0.99),
    verified,
    cpuSeconds: (user + system) / 1e6,
  }
}

function headOf({ url, headers, body }: PostRun, messageId: string): string {
  const { host, pathname } = new URL(url)
  const fields = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return `POST ${pathname} HTTP/1.1\r\nHost: ${host}\r\nMessage-ID: ${messageId}\r\n${fields}Content-Length: ${body.length}\r\n\r\n`
}

function check({ receipts }: PostRun, { head, text }: Answer, messageId: string): void {
  const isGood =
    / 200 /.test(head.slice(0, 14)) &&
    (receipts === null || (/^disposition:.*; *processed\r$/im.test(text) && text.includes(messageId)))
  if (!isGood) throw new Error(`The receiver answered ${head}\n\n${text.slice(0, 1_000)}`)
}

async function verify(
  { mic, signer }: NonNullable<PostRun['receipts']>,
  { head, text }: Answer,
  messageId: string,
): Promise<void> {
  const headers = head
    .split('\r\n')
    .slice(1)
    .map((line): [string, string] => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 1).trim()]
    })
  const receipt = await readReceipt({
    headers,
    body: Buffer.from(text, 'latin1'),
    signers: [Buffer.from(signer)],
  })
  const { signed, disposition, originalMessageId } = receipt
  const isGood =
    signed &&
    disposition.modifier === null &&
    originalMessageId === messageId &&
    receipt.mic !== null &&
    plainMic(formatMic(receipt.mic)) === plainMic(mic)
  if (!isGood) throw new Error(`The receipt is not good: ${receipt.dispositionText} ${text.slice(0, 1_000)}`)
}

/** Spellings differ in case and hyphens alone. */
function plainMic(mic: string): string {
  const [value = '', algorithm = ''] = mic.split(',')
  return `${value.trim()} ${algorithm.trim().toLowerCase().replaceAll('-', '')}`
}

process.on('message', (run: PostRun) => {
  post({ ...run, body: Buffer.from(run.body) }).then(
    (figures) => process.send?.({ figures } satisfies PostAnswer),
    (error: unknown) => process.send?.({ failure: String(error) } satisfies PostAnswer),
  )
})
process.on('disconnect', () => process.exit(0))
