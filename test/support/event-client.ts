import { once } from 'node:events'
import { request, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import type { Teardown } from './database.ts'
import { until } from './processes.ts'

export interface ReceivedEvent {
  /** As a browser knows it: that of the last event that had one, empty after an empty one. */
  readonly lastEventId: string
  readonly event: string
  readonly data: string
}

export interface EventRequest {
  readonly lastEventId?: string | number
  readonly messageId?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Reads an event stream as the HTML Standard tells browsers to, over a connection of its own. */
export class EventClient {
  readonly headers: IncomingHttpHeaders
  readonly events: ReceivedEvent[] = []
  readonly comments: string[] = []
  /** In milliseconds, as the server asks for; null when it did not. */
  retry: number | null = null
  /** Null while the stream is open. */
  ended: 'complete' | 'cut off' | null = null
  /** Bytes that came. */
  received = 0
  readonly #request: ClientRequest
  readonly #response: IncomingMessage
  readonly #decoder = new TextDecoder('utf-8', { fatal: true })
  #rest = ''
  #id = ''
  #event = ''
  #data: string[] = []

  private constructor(asked: ClientRequest, response: IncomingMessage) {
    this.#request = asked
    this.#response = response
    this.headers = response.headers
    response.on('data', (chunk: Buffer) => this.#take(chunk))
    response.on('error', () => undefined)
    response.once('close', () => {
      this.ended = response.complete ? 'complete' : 'cut off'
    })
  }

  /** Resolves when the head of the answer has come; throws for another status than 200. */
  static async open(t: Teardown, base: string, asking: EventRequest = {}): Promise<EventClient> {
    const { lastEventId, messageId, headers = {} } = asking
    const query = messageId === undefined ? '' : `?message_id=${messageId}`
    const asked = request(`${base}/events${query}`, {
      agent: false,
      headers: {
        accept: 'text/event-stream',
        ...headers,
        ...(lastEventId === undefined ? {} : { 'last-event-id': String(lastEventId) }),
      },
    })
    asked.on('error', () => undefined)
    asked.end()
    const [response] = (await once(asked, 'response')) as [IncomingMessage]
    const client = new EventClient(asked, response)
    t.teardown(async () => client.close())
    if (response.statusCode !== 200) throw new Error(`The stream is answered with ${response.statusCode}`)
    return client
  }

  /** The ids of the lines that came. */
  get ids(): readonly number[] {
    return this.events.filter(({ event }) => event === 'message_history').map(({ data }) => idOf(data))
  }

  /** Reads no more until `resume`: what comes fills the buffers between. */
  pause(): void {
    this.#response.pause()
  }

  resume(): void {
    this.#response.resume()
  }

  close(): void {
    this.#request.destroy()
  }

  /** Waits for the event with an id. */
  async reached(id: number): Promise<void> {
    try {
      await until(() => this.ids.includes(id) || this.ended !== null)
    } catch (thrown) {
      throw new Error(`Event ${id} did not come; these did: ${this.ids.join()}`, { cause: thrown })
    }
    if (!this.ids.includes(id)) throw new Error(`The stream ended before event ${id}`)
  }

  /** Waits for the end of the stream. */
  async over(): Promise<'complete' | 'cut off'> {
    await until(() => this.ended !== null)
    return this.ended ?? 'cut off'
  }

  #take(chunk: Buffer): void {
    this.received += chunk.length
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.#line(line)
  }

  #line(line: string): void {
    if (line === '') return this.#dispatch()
    const colon = line.indexOf(':')
    if (colon === 0) {
      this.comments.push(line.slice(1).trim())
      return
    }
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'id') this.#id = value
    else if (field === 'event') this.#event = value
    else if (field === 'data') this.#data.push(value)
    else if (field === 'retry') this.retry = Number(value)
    else throw new Error(`The stream has a line ${JSON.stringify(line)}`)
  }

  #dispatch(): void {
    if (this.#data.length > 0) {
      const event = this.#event === '' ? 'message' : this.#event
      this.events.push({ lastEventId: this.#id, event, data: this.#data.join('\n') })
    }
    this.#event = ''
    this.#data = []
  }
}

function idOf(data: string): number {
  return (JSON.parse(data) as { id: number }).id
}
