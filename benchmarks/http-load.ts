import { once } from 'node:events'
import { connect } from 'node:net'

/** HTTP requests over a few kept connections, one at a time on each, with as little work on this side as possible. */

export interface Load {
  readonly port: number
  readonly connections: number
  readonly requests: number
  /** The whole request, numbered from 0. */
  readonly request: (index: number) => string
  /** The status that each answer must have. */
  readonly status: number
}

export interface LoadFigures {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Sends all requests and measures each from its last byte out to its last byte in. */
export async function load(options: Load): Promise<LoadFigures> {
  const { connections, requests } = options
  const latenciesMs: number[] = []
  let next = 0
  const take = (): number | null => (next < requests ? next++ : null)
  const began = performance.now()
  await Promise.all(Array.from({ length: connections }, () => drive(options, take, latenciesMs)))
  const seconds = (performance.now() - began) / 1000
  latenciesMs.sort((one, other) => one - other)
  const quantile = (share: number): number => latenciesMs[Math.floor(latenciesMs.length * share)] ?? 0
  return { perSecond: requests / seconds, p50Ms: quantile(0.5), p99Ms: quantile(0.99) }
}

async function drive(options: Load, take: () => number | null, latenciesMs: number[]): Promise<void> {
  const { port, request, status } = options
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let sentAt = 0
  let received = ''
  const send = (): void => {
    const index = take()
    if (index === null) {
      socket.end()
      resolve()
      return
    }
    received = ''
    sentAt = performance.now()
    socket.write(request(index))
  }
  socket.setEncoding('latin1')
  socket.on('data', (chunk: string) => {
    received += chunk
    if (!isComplete(received)) return
    if (!received.startsWith(`HTTP/1.1 ${status} `)) {
      reject(new Error(`The server answered ${received.slice(0, 300)}`))
      return
    }
    latenciesMs.push(performance.now() - sentAt)
    send()
  })
  socket.once('error', reject)
  socket.once('close', () => reject(new Error('The server closed the connection')))
  send()
  await promise.finally(() => socket.destroy())
}

function isComplete(answer: string): boolean {
  const head = answer.indexOf('\r\n\r\n')
  if (head === -1) return false
  const length = /\r\ncontent-length: *(\d+)/i.exec(answer.slice(0, head))?.[1]
  if (length === undefined) throw new Error('The server gave no Content-Length')
  return answer.length >= head + 4 + Number(length)
}
