import type { Pool } from 'pg'
import type { EventConnection } from '../../runtime/endpoint/endpoint.ts'
import type { HistoryLine } from '../../storage/exchange/messages.ts'
import { readLines } from '../../storage/events/history-lines.ts'
import { bytesOf, type PlacedLine } from '../../storage/events/recent-lines.ts'
import type { Membership } from '../../storage/events/tail.ts'
import { shownLine } from './message-answer.ts'

/** How a line goes over the wire. JSON has no line ends. */
export function eventOf(line: HistoryLine): string {
  return `id: ${line.id}\nevent: message_history\ndata: ${JSON.stringify(shownLine(line))}\n\n`
}

function reloadEvent(reason: 'missed' | 'slow'): Buffer {
  return Buffer.from(`id:\nevent: reload\ndata: ${JSON.stringify({ reason })}\n\n`)
}

const LINES_AT_ONCE = 100

/** What was missed: the lines after one id, up to another. */
export interface MissedLines {
  readonly after: number
  readonly upTo: number
  /** Whether the client said what it has: then it gets all that it has not, also what was committed before it came. */
  readonly isReplay: boolean
}

interface Begun {
  readonly connection: EventConnection
  readonly membership: Membership
  readonly isReplay: boolean
}

/**
 * One client: a position in the history. What it missed is read from the history, page by page, as the client takes it;
 * then it reads along with the tail from where that ended. Nothing is held for it but what its connection has in hand.
 */
export class EventReader {
  readonly #pool: Pool
  readonly #messageId: string | null
  /** Null until what was missed has been sent, and after the end. */
  #begun: Begun | null = null
  #position = 0

  constructor(pool: Pool, messageId: string | null) {
    this.#pool = pool
    this.#messageId = messageId
  }

  begin(connection: EventConnection, membership: Membership, missed: MissedLines | 'reload'): void {
    const leave = (): void => {
      this.#begun = null
      membership.leave()
    }
    connection.closed.addEventListener('abort', leave, { once: true })
    if (connection.closed.aborted) return leave()
    if (missed === 'reload') {
      connection.finish(reloadEvent('missed'))
      return
    }
    void this.#start({ connection, membership, isReplay: missed.isReplay }, missed)
  }

  async #start(begun: Begun, missed: MissedLines): Promise<void> {
    const { connection } = begun
    try {
      await this.#replay(connection, missed)
    } catch {
      // The database is away: the client connects again, and says what it has.
      connection.finish(Buffer.alloc(0))
    }
    if (connection.closed.aborted) return
    this.#begun = begun
    this.#position = missed.upTo
    connection.onDrain(() => this.pump())
    this.pump()
  }

  /** Sends what there is and the client takes. */
  pump(): void {
    while (this.#begun !== null) {
      const { connection, membership } = this.#begun
      const batch = membership.following(this.#position)
      if (batch === 'missed') {
        connection.finish(reloadEvent('slow'))
        return
      }
      if (batch === 'none' || connection.isFull) return
      const bytes = bytesOf(batch, (line) => this.#isWanted(line, membership))
      this.#position = batch.upTo
      if (bytes.length > 0) connection.write(bytes)
    }
  }

  #isWanted({ id, messageId }: PlacedLine, { isNew }: Membership): boolean {
    if (id <= this.#position || (this.#messageId !== null && messageId !== this.#messageId)) return false
    return this.#begun?.isReplay === true || isNew(id)
  }

  async #replay(connection: EventConnection, { after, upTo }: MissedLines): Promise<void> {
    let position = after
    const drained = new Drains(connection)
    while (position < upTo && !connection.closed.aborted) {
      const range = { after: position, upTo, messageId: this.#messageId }
      const lines = await readLines(this.#pool, range, LINES_AT_ONCE)
      if (lines.length > 0) connection.write(Buffer.from(lines.map(eventOf).join('')))
      position = lines.length < LINES_AT_ONCE ? upTo : (lines.at(-1)?.id ?? upTo)
      await drained.next()
    }
  }
}

/** Waits until a connection takes more, or is closed. */
class Drains {
  readonly #connection: EventConnection
  #resume: () => void = () => undefined

  constructor(connection: EventConnection) {
    this.#connection = connection
    connection.onDrain(() => this.#resume())
    connection.closed.addEventListener('abort', () => this.#resume(), { once: true })
  }

  next(): Promise<void> {
    const { isFull, closed } = this.#connection
    if (!isFull || closed.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      this.#resume = resolve
    })
  }
}
