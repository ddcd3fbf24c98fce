import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { z } from 'zod'
import { endpoint, type Endpoint, type FileAnswer } from '../../runtime/endpoint/endpoint.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { MessageView } from '../../storage/exchange/messages.ts'
import type { PayloadStage } from '../../storage/exchange/states.ts'
import { openRecordedStage } from '../../storage/payloads/journal.ts'
import { StorageError } from '../../storage/storage-error.ts'
import { findAttachment } from './messages-attachment.ts'
import { existingMessage, messagePath, MESSAGES_TAG, type MessageServices } from './messages-lookup.ts'

/** In the order in which one is chosen for a request that names none. `message` is made, the others are stored. */
const SERVED_STAGES = ['unpacked', 'message', 'received', 'headers', 'receipt'] as const
type ServedStage = (typeof SERVED_STAGES)[number]

/** So much is read and held against its digest before the answer begins; more is held against it while it is sent. */
const CHECKED_FIRST_BYTES = 1024 * 1024

const CONTENT_TYPE = 'application/octet-stream'
const END_OF_HEADERS = Buffer.from('\r\n')

export function payloadEndpoint(services: MessageServices): Endpoint {
  return endpoint({
    method: 'GET',
    path: '/messages/{id}/payload',
    operationId: 'getMessagePayload',
    summary: 'Download a payload of a message',
    description:
      'Exactly the bytes that were stored: damaged ones end in `PAYLOAD_DAMAGED`, or, above 1 MiB, in a connection that breaks off, and never in a complete answer.',
    tag: MESSAGES_TAG,
    params: messagePath,
    query: z.object({
      stage: z
        .enum(SERVED_STAGES)
        .optional()
        .meta({
          description:
            'Which one: `unpacked` is the content, `received` and `headers` are what came from the partner, `message` is made of these two, `receipt` is the receipt as it travelled. Left out: `unpacked`, or the first of this order that the message has. One that it lacks is 404; no other is served in its place.',
          examples: ['receipt'],
        }),
      attachment: z
        .string()
        .regex(/^[1-9]\d{0,8}$/, { error: 'must be a whole number from 1' })
        .transform(Number)
        .optional()
        .meta({
          type: 'integer',
          minimum: 1,
          description:
            'One file of a message with several, whose `content_type` is `multipart/related` or `multipart/mixed`: its number in the order in which the message lists them, the root first. The file is served under its own name, and without its transfer encoding. It goes with the stage `unpacked` alone; 404 when there is no such file.',
          examples: [1],
        }),
    }),
    answer: {
      kind: 'file',
      contentType: CONTENT_TYPE,
      description:
        'The bytes. The content is offered under its file name, or the file of it that was asked for under its own, a receipt as `<id>-receipt.eml`, a message as `<id>.eml`.',
    },
    errors: ['PAYLOAD_DAMAGED'],
    handle: async ({ path, query }) => {
      const message = await existingMessage(services.pool, path.id)
      const stages = stagesOf(message)
      const { attachment } = query
      const stage = query.stage ?? (attachment === undefined ? stages[0] : 'unpacked')
      if (attachment !== undefined && stage !== 'unpacked')
        throw validationFailure({ attachment: `goes with the stage unpacked, not with ${stage}` })
      if (stage === undefined || !stages.includes(stage)) {
        throw new WaybillError('NOT_FOUND', `The message has no payload ${stage ?? ''}`.trimEnd())
      }
      if (attachment !== undefined) return attachmentAnswer(services, message, attachment)
      return {
        contentType: CONTENT_TYPE,
        fileName: fileNameOf(message, stage),
        bytes: await bytesOf(services, message, stage),
      }
    },
  })
}

async function attachmentAnswer(
  services: MessageServices,
  message: MessageView,
  number: number,
): Promise<FileAnswer> {
  const openUnpacked = () => open(services, message, 'unpacked')
  const found = await unlessDamaged('unpacked', () => findAttachment(message, number, openUnpacked))
  return { contentType: CONTENT_TYPE, ...found }
}

function stagesOf({ payloads }: MessageView): readonly ServedStage[] {
  return SERVED_STAGES.filter((stage) =>
    stage === 'message' ? 'headers' in payloads && 'received' in payloads : stage in payloads,
  )
}

function fileNameOf(message: MessageView, stage: ServedStage): string {
  if (stage === 'unpacked') return message.file_name
  if (stage === 'message') return `${message.id}.eml`
  return stage === 'receipt' ? `${message.id}-receipt.eml` : `${message.id}-${stage}`
}

async function bytesOf(
  services: MessageServices,
  message: MessageView,
  stage: ServedStage,
): Promise<FileAnswer['bytes']> {
  const stored: readonly PayloadStage[] = stage === 'message' ? ['headers', 'received'] : [stage]
  const size = stored.reduce((sum, each) => sum + (message.payloads[each]?.size_bytes ?? 0), 0)
  const [first, ...rest] = stored
  if (first === undefined) throw new Error('A served stage is made of stored ones')
  if (size <= CHECKED_FIRST_BYTES) {
    const parts: Buffer[] = []
    for (const each of stored) {
      if (parts.length > 0) parts.push(END_OF_HEADERS)
      parts.push(await unlessDamaged(each, async () => buffer(await open(services, message, each))))
    }
    return Buffer.concat(parts)
  }
  const opened = await unlessDamaged(first, () => open(services, message, first))
  if (rest.length === 0) return opened
  const others = rest.map((each) => () => open(services, message, each))
  return Readable.from(inTurn(opened, others), { objectMode: false })
}

/** What is wrong with one stored payload is told before its first byte; where it should lie is for the log. */
async function unlessDamaged<T>(stage: PayloadStage, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (thrown) {
    const problem = thrown instanceof StorageError ? thrown.problem : undefined
    if (problem !== 'damaged' && problem !== 'missing') throw thrown
    const what = problem === 'damaged' ? 'differs from what was stored' : 'is missing from the storage'
    throw new WaybillError(
      'PAYLOAD_DAMAGED',
      `The stored payload ${stage} of this message ${what}`,
      undefined,
      { cause: thrown },
    )
  }
}

function open({ pool, payloads }: MessageServices, message: MessageView, stage: PayloadStage) {
  const facts = message.payloads[stage]
  if (facts === undefined) throw new Error(`The message has no payload ${stage}`)
  return openRecordedStage(pool, payloads, { messageId: message.id, stage, sha256: facts.sha256 })
}

/** The header lines, the empty line that ends them, and the body. */
async function* inTurn(first: Readable, rest: readonly (() => Promise<Readable>)[]): AsyncGenerator<Buffer> {
  yield* first as AsyncIterable<Buffer>
  for (const next of rest) {
    yield END_OF_HEADERS
    yield* (await next()) as AsyncIterable<Buffer>
  }
}
