import { Readable } from 'node:stream'
import type { Pool } from 'pg'
import { z } from 'zod'
import { endpoint, type Endpoint, type FileAnswer } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { ProtocolView } from '../../runtime/module.ts'
import { listOf, pagingParameters } from '../../runtime/endpoint/paging.ts'
import { findMessage, listMessages, type MessageView } from '../../storage/exchange/messages.ts'
import type { PayloadStage } from '../../storage/exchange/states.ts'
import { openStage } from '../../storage/payloads/journal.ts'
import type { PayloadStore } from '../../storage/payloads/store.ts'
import { messageAnswer, messageStatus, shownMessage } from './message-answer.ts'

/** `/messages`. */

export interface MessageServices {
  readonly pool: Pool
  readonly payloads: PayloadStore
  /** By module name; a module without one has no entry under `protocols`. */
  readonly protocolViews: Readonly<Record<string, ProtocolView>>
}

/** In the order in which one is chosen for a request that names none. */
const SERVED_STAGES = ['unpacked', 'message', 'received', 'headers', 'receipt'] as const
type ServedStage = (typeof SERVED_STAGES)[number]

const MESSAGES_ON_A_PAGE = 50
const tag = 'Messages'
const filterText = z.string().min(1).max(200).optional()
const params = z.object({
  id: z
    .string()
    .regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, { error: 'must be a UUID' })
    .transform((id) => id.toLowerCase())
    .meta({ format: 'uuid', description: 'Id of the message.' }),
})

export function messageEndpoints(services: MessageServices): readonly Endpoint[] {
  const { pool, protocolViews } = services
  return [
    endpoint({
      method: 'GET',
      path: '/messages',
      operationId: 'listMessages',
      summary: 'List messages',
      tag,
      query: z.object({
        ...pagingParameters(MESSAGES_ON_A_PAGE),
        status: messageStatus.optional().describe('Messages in this status.'),
        from: filterText.describe('Messages of this party.'),
        to: filterText.describe('Messages to this party.'),
        since: z.iso
          .datetime({ offset: true, error: 'must be a time of RFC 3339' })
          .transform((text) => new Date(text))
          .optional()
          .meta({ description: 'Messages created at this time or later.' }),
      }),
      answer: {
        kind: 'data',
        status: 200,
        schema: listOf('messages', messageAnswer),
        description: 'The page, newest first.',
      },
      handle: async ({ query }) => {
        const { limit, offset, ...filter } = query
        const { messages, total } = await listMessages(pool, filter, { limit, offset })
        return { messages: messages.map((each) => shownMessage(each, protocolViews)), total, limit, offset }
      },
    }),
    endpoint({
      method: 'GET',
      path: '/messages/{id}',
      operationId: 'getMessage',
      summary: 'Get a message',
      tag,
      params,
      answer: { kind: 'data', status: 200, schema: messageAnswer, description: 'The message.' },
      handle: async ({ path }) => shownMessage(await existing(pool, path.id), protocolViews),
    }),
    payloadEndpoint(services),
  ]
}

function payloadEndpoint(services: MessageServices): Endpoint {
  return endpoint({
    method: 'GET',
    path: '/messages/{id}/payload',
    operationId: 'getMessagePayload',
    summary: 'Download a payload of a message',
    tag,
    params,
    query: z.object({
      stage: z
        .enum(SERVED_STAGES)
        .optional()
        .describe(
          'Which one; left out: unpacked, or the first that the message has. `message` is headers and received.',
        ),
    }),
    answer: {
      kind: 'file',
      contentType: 'application/octet-stream',
      description: 'The bytes as they were stored; a receipt as it travelled.',
    },
    handle: async ({ path, query }) => {
      const message = await existing(services.pool, path.id)
      const stages = stagesOf(message)
      const stage = query.stage ?? stages[0]
      if (stage === undefined || !stages.includes(stage)) {
        throw new WaybillError('NOT_FOUND', `The message has no payload ${stage ?? ''}`.trimEnd())
      }
      return payload(services, message, stage)
    },
  })
}

function stagesOf(message: MessageView): readonly ServedStage[] {
  const { payloads } = message
  return SERVED_STAGES.filter((stage) =>
    stage === 'message' ? 'headers' in payloads && 'received' in payloads : stage in payloads,
  )
}

async function payload(
  { pool, payloads }: MessageServices,
  message: MessageView,
  stage: ServedStage,
): Promise<FileAnswer> {
  const open = (stored: PayloadStage): Promise<Readable> => openStage(pool, payloads, message.id, stored)
  const contentType = 'application/octet-stream'
  if (stage === 'message') {
    const headers = await open('headers')
    const bytes = Readable.from(
      inTurn(headers, () => open('received')),
      { objectMode: false },
    )
    return { contentType, fileName: `${message.id}.eml`, bytes }
  }
  return { contentType, fileName: fileNameOf(message, stage), bytes: await open(stage) }
}

/** The header lines, the empty line that ends them, and the body. */
async function* inTurn(headers: Readable, body: () => Promise<Readable>): AsyncGenerator<Buffer> {
  yield* headers as AsyncIterable<Buffer>
  yield Buffer.from('\r\n')
  yield* (await body()) as AsyncIterable<Buffer>
}

function fileNameOf(message: MessageView, stage: Exclude<ServedStage, 'message'>): string {
  if (stage === 'unpacked') return message.file_name
  return stage === 'receipt' ? `${message.id}-receipt.eml` : `${message.id}-${stage}`
}

async function existing(pool: Pool, id: string): Promise<MessageView> {
  const message = await findMessage(pool, id)
  if (message === null) throw new WaybillError('NOT_FOUND', 'Message not found')
  return message
}
