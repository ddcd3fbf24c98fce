import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** HTTP as bytes on a connection, for what no client library would send. */

export interface RawAnswer {
  /** Such as `HTTP/1.1 200 OK`. */
  readonly line: string
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

const LIMIT_MS = 60_000

export async function openConnection(base: string): Promise<Socket> {
  const { hostname, port } = new URL(base)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  return socket
}

/** Sends the text and answers everything that comes until the other side closes. */
export async function exchange(base: string, text: string | Uint8Array): Promise<readonly RawAnswer[]> {
  const socket = await openConnection(base)
  try {
    socket.write(text)
    return answersIn(await everything(socket))
  } finally {
    socket.destroy()
  }
}

/** What arrives until the other side closes the connection, which it must do in time. */
export async function everything(socket: Socket): Promise<string> {
  const chunks: Buffer[] = []
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => reject(new Error(`The connection stays open after ${Buffer.concat(chunks).toString()}`)),
    LIMIT_MS,
  )
  try {
    const reading = async (): Promise<void> => {
      for await (const chunk of socket) chunks.push(chunk as Buffer)
    }
    await Promise.race([reading(), late])
  } finally {
    clearTimeout(timer)
  }
  return Buffer.concat(chunks).toString()
}

/** The answers within a text, one after the other; those with status 100 have no body. */
export function answersIn(text: string): readonly RawAnswer[] {
  const answers: RawAnswer[] = []
  let rest = text
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n')
    if (end === -1) throw new Error(`This is no answer: ${rest}`)
    const [line = '', ...lines] = rest.slice(0, end).split('\r\n')
    const headers = new Headers(
      lines.map((each): [string, string] => {
        const colon = each.indexOf(':')
        return [each.slice(0, colon), each.slice(colon + 1).trim()]
      }),
    )
    const status = Number(line.split(' ')[1])
    const length = Number(headers.get('content-length') ?? 0)
    const begin = end + 4
    answers.push({ line, status, headers, body: rest.slice(begin, begin + length) })
    rest = rest.slice(begin + length)
  }
  return answers
}
