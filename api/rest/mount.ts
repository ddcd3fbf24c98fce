import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type {
  BareAnswer,
  ChosenAnswer,
  Endpoint,
  EventsAnswer,
  FileAnswer,
  UncheckedBody,
} from '../../runtime/endpoint/endpoint.ts'
import { StorageError } from '../../storage/storage-error.ts'
import { BODY_LIMIT_BYTES, checkHeaders, jsonBody, mediaTypeOf } from './body.ts'
import type { Authenticate } from './caller.ts'
import type { EventStreams } from './event-streams.ts'
import { success } from './envelope.ts'
import { noSuchPath } from './unknown-path.ts'
import { discardReceived, readUpload, refuseDeclaredSize } from './upload.ts'

export interface MountOptions {
  readonly endpoints: readonly Endpoint[]
  readonly authenticate: Authenticate
  readonly streams: EventStreams
}

/**
 * Turns descriptions into routes of `api`, which has the prefix of the API. The checks come in this order:
 * credential, path and method, Content-Type, X-Requested-With, size, body, record.
 */
export function mountEndpoints(api: FastifyInstance, options: MountOptions): void {
  const { endpoints, authenticate, streams } = options
  for (const endpoint of endpoints) {
    api.route({
      method: endpoint.method,
      url: endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      bodyLimit: BODY_LIMIT_BYTES,
      config: { mediaType: mediaTypeOf(endpoint) },
      // The type of the answer is known; a client's Accept has no say in it, as on every path.
      ...(endpoint.answer.kind === 'events' ? { sse: 'manual' as const } : {}),
      onRequest: async (request) => {
        if (!endpoint.public) request.caller = await authenticate(request)
        // The router takes an empty step for a parameter.
        if (Object.values(request.params as Record<string, string>).includes('')) throw noSuchPath()
        checkHeaders(endpoint, request.headers)
        refuseDeclaredSize(endpoint, request)
      },
      handler: async (request, reply) => {
        const asked = await unchecked(endpoint, request, reply)
        try {
          const result = await endpoint.handle(asked)
          if (endpoint.answer.kind === 'events')
            return await streams.send(request, reply, result as EventsAnswer)
          return sendAnswer(endpoint, reply, result)
        } catch (thrown) {
          if (asked.body.kind === 'upload') await discardReceived(asked.body.parts.received, request.log)
          throw thrown
        }
      },
    })
  }
}

async function unchecked(endpoint: Endpoint, request: FastifyRequest, reply: FastifyReply) {
  const gone = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort()
  })
  return {
    path: { ...(request.params as Record<string, string>) },
    query: { ...(request.query as Record<string, unknown>) },
    headers: request.headers,
    body: await bodyOf(endpoint, request),
    caller: request.caller,
    log: request.log.child({ caller: request.caller.name }),
    requestId: request.id,
    signal: gone.signal,
  }
}

async function bodyOf(endpoint: Endpoint, request: FastifyRequest): Promise<UncheckedBody> {
  if (endpoint.body?.kind === 'upload')
    return { kind: 'upload', parts: await readUpload(request, endpoint.body) }
  return jsonBody(endpoint, request.body)
}

function sendAnswer(endpoint: Endpoint, reply: FastifyReply, result: unknown): FastifyReply {
  const { answer } = endpoint
  if (answer.kind === 'data') return reply.code(answer.status).send(success(result))
  if (answer.kind === 'choice') {
    const { status, data } = result as ChosenAnswer<number, unknown>
    return reply.code(status).send(success(data))
  }
  if (answer.kind === 'empty') return reply.code(204).send()
  if (answer.kind === 'file') return sendFile(reply, result as FileAnswer)
  const { status, body } = result as BareAnswer<unknown>
  return reply.code(status).send(body)
}

function sendFile(reply: FastifyReply, file: FileAnswer): FastifyReply {
  reply.code(200).header('content-type', file.contentType)
  if (file.fileName !== undefined) reply.header('content-disposition', attachment(file.fileName))
  if (file.bytes instanceof Uint8Array) return reply.send(Buffer.from(file.bytes))
  return reply.send(told(file.bytes, reply))
}

/** An answer that has begun can only break off: why is for the log. That its reader went away is no failure of ours. */
function told(bytes: Readable, reply: FastifyReply): Readable {
  return bytes.once('error', (error) => {
    if (error instanceof StorageError) reply.log.error({ reason: error.message }, 'An answer broke off')
  })
}

/** RFC 6266 §4.3: the name in ASCII for every client, and exact in `filename*` where it has other characters. */
function attachment(fileName: string): string {
  const plain = fileName.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
  const exact = encodeURIComponent(fileName).replaceAll(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16)}`,
  )
  return plain === fileName
    ? `attachment; filename="${plain}"`
    : `attachment; filename="${plain}"; filename*=UTF-8''${exact}`
}
