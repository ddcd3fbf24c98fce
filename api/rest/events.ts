import type { Pool } from 'pg'
import { z } from 'zod'
import type { Clock } from '../../runtime/clock.ts'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import type { Log } from '../../runtime/log.ts'
import { countLines } from '../../storage/events/history-lines.ts'
import { HistoryTail, type Membership, type TailLimits } from '../../storage/events/tail.ts'
import { openPool } from '../../storage/postgres/pool.ts'
import { eventOf, EventReader } from './event-reader.ts'
import { historyLine } from './message-answer.ts'
import { messageId } from './messages-lookup.ts'

/** GET /events (specification, 6.1). */

/** The tail of the process, and the connections on which it and its readers read: no request waits for them. */
export interface OpenEvents {
  readonly tail: HistoryTail
  readonly pool: Pool
  readonly close: () => Promise<void>
}

export interface EventServices {
  readonly events: OpenEvents
}

export interface EventOptions {
  readonly databaseUrl: string
  readonly clock: Clock
  readonly log: Log
  readonly limits?: Partial<TailLimits>
}

const POOL_SIZE = 2

/** It connects with the first reader. */
export function openEvents({ databaseUrl: url, ...options }: EventOptions): OpenEvents {
  const pool = openPool({ url, size: POOL_SIZE, applicationName: 'waybill events', log: options.log })
  const tail = new HistoryTail({ ...options, pool, encode: eventOf })
  const close = async (): Promise<void> => {
    await tail.close()
    await pool.end()
  }
  return { tail, pool, close }
}

/** More missed lines than these are not sent again: listing the messages takes less. */
const MOST_REPLAYED = 1_000

const DESCRIPTION = `Each line that is written to the history of a message, as one event, on any node, in the order of ids, each once, and none of what was rolled back. The id of an event is that of the line: whoever has got one has got all smaller ones that there will ever be.

Without \`Last-Event-ID\` these are the lines that are added after the head of the answer was sent. With it every later line that is stored comes first. When more than ${MOST_REPLAYED} were missed, or the client does not read fast enough, there is one event \`reload\`, and the stream ends: list the messages, and connect again without \`Last-Event-ID\`. That event has an empty id, so that a browser forgets the last one.

A comment comes every 20 seconds, and the credential is looked at again: when it is not valid any more, the stream ends. It also ends when the server stops. It does not end when the database is away: it goes on where it was. \`Accept\` is not looked at. A reverse proxy must not buffer the stream, and must not close a connection that is silent for 20 seconds.`

const lastEventId = z
  .string()
  .regex(/^\d+$/, { error: 'must be a whole number' })
  // No id is larger than that.
  .transform((text) => Math.min(Number(text), Number.MAX_SAFE_INTEGER))
  .optional()
  .meta({
    description:
      'The id of the last event that the client has: those after it come first. One that no line has had yet asks for new lines alone.',
    examples: ['4713'],
  })

const reload = z
  .object({
    reason: z
      .enum(['missed', 'slow'])
      .describe(
        '`missed`: more lines than are sent again. `slow`: the client has not read in time, or the database was replaced by an older one.',
      ),
  })
  .meta({ description: 'Says that lines are missing.', examples: [{ reason: 'missed' }] })

export function eventsEndpoint({ events: { tail, pool } }: EventServices): Endpoint {
  return endpoint({
    method: 'GET',
    path: '/events',
    operationId: 'followEvents',
    summary: 'Follow the history of all messages, or of one',
    description: DESCRIPTION,
    tag: 'Messages',
    query: z.object({
      message_id: messageId.optional().meta({
        format: 'uuid',
        description: 'Lines of the message with this id alone. An unknown one has none.',
        examples: ['0198c2f4-6a3e-7c11-9d52-3b1f0a7e4c68'],
      }),
    }),
    headers: z.object({ 'Last-Event-ID': lastEventId }),
    answer: {
      kind: 'events',
      events: {
        message_history: {
          schema: historyLine,
          description: 'One line of the history of a message. The id of the event is its `id`.',
        },
        reload: {
          schema: reload,
          description:
            'The last event of the stream: list the messages, and connect without `Last-Event-ID`.',
        },
      },
      description: 'The stream.',
    },
    errors: ['TOO_BUSY'],
    handle: ({ query, headers }) => ({
      open: async () => {
        const message = query.message_id ?? null
        const reader = new EventReader(pool, message)
        const membership = await tail.join(() => reader.pump())
        try {
          const range = missedRange(headers['Last-Event-ID'], membership)
          const wanted = { ...range, messageId: message }
          const isNothing = range.after === range.upTo
          const missed = isNothing ? 0 : await countLines(pool, wanted, MOST_REPLAYED + 1)
          return (connection) =>
            reader.begin(connection, membership, missed > MOST_REPLAYED ? 'reload' : range)
        } catch (thrown) {
          membership.leave()
          throw thrown
        }
      },
    }),
  })
}

/**
 * What is read from the history before the lines of the tail. Another node may have been ahead of ours: then the client
 * has some of what the tail is going to bring. An id that nobody has handed out yet names nothing that was missed.
 */
function missedRange(lastId: number | undefined, { position, handedOut }: Membership) {
  if (lastId === undefined || lastId > handedOut) return { after: position, upTo: position, isReplay: false }
  return { after: lastId, upTo: Math.max(position, lastId), isReplay: true }
}
