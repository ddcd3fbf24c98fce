import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../runtime/config.ts'
import type { BareAnswer, Endpoint, FileAnswer, UncheckedBody } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import { BODY_LIMIT_BYTES, checkHeaders, jsonBody, mediaTypeOf } from './body.ts'
import { authenticate } from './caller.ts'
import { sendFailure, success } from './envelope.ts'
import { methodsOf } from './unknown-path.ts'
import { readUpload } from './upload.ts'

export interface MountOptions {
  readonly endpoints: readonly Endpoint[]
  readonly build: Config['build']
}

/**
 * Turns descriptions into routes of `api`, which has the prefix of the API. The checks come in this order:
 * credential, path and method, Content-Type, X-Requested-With, size, body, record.
 */
export function mountEndpoints(api: FastifyInstance, options: MountOptions): void {
  const { endpoints, build } = options
  for (const endpoint of endpoints) {
    api.route({
      method: endpoint.method,
      url: endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      bodyLimit: BODY_LIMIT_BYTES,
      onRequest: async (request, reply) => {
        if (!endpoint.public) request.caller = authenticate(build, request.headers)
        // The router takes an empty step for a parameter.
        if (Object.values(request.params as Record<string, string>).includes('')) throw noSuchPath()
        const expected = mediaTypeOf(endpoint)
        // RFC 9110 §15.5.16: a 415 tells in Accept what would have been taken.
        if (expected !== null) reply.header('accept', expected)
        checkHeaders(endpoint, request.headers)
        reply.removeHeader('accept')
      },
      handler: async (request, reply) => {
        const result = await endpoint.handle(await unchecked(endpoint, request, reply))
        return sendAnswer(endpoint, reply, result)
      },
    })
  }

  api.setNotFoundHandler((request, reply) => {
    request.caller = authenticate(build, request.headers)
    const path = new URL(request.url, 'http://host').pathname.slice(api.prefix.length)
    const methods = methodsOf(endpoints, path)
    if (methods.length === 0) throw noSuchPath()
    reply.header('allow', methods.join(', '))
    throw new WaybillError('METHOD_NOT_ALLOWED', `The path does not take the method ${request.method}`)
  })
  api.setErrorHandler((thrown, request, reply) => sendFailure(request, reply, thrown))
}

function noSuchPath(): WaybillError {
  return new WaybillError('NOT_FOUND', 'No such path')
}

async function unchecked(endpoint: Endpoint, request: FastifyRequest, reply: FastifyReply) {
  const gone = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort()
  })
  return {
    path: { ...(request.params as Record<string, string>) },
    query: { ...(request.query as Record<string, unknown>) },
    body: await bodyOf(endpoint, request),
    caller: request.caller,
    log: request.log,
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
  if (answer.kind === 'empty') return reply.code(204).send()
  if (answer.kind === 'file') return sendFile(reply, result as FileAnswer)
  const { status, body } = result as BareAnswer<unknown>
  return reply.code(status).send(body)
}

function sendFile(reply: FastifyReply, file: FileAnswer): FastifyReply {
  reply.code(200).header('content-type', file.contentType)
  if (file.fileName !== undefined) reply.header('content-disposition', attachment(file.fileName))
  return reply.send(
    file.bytes instanceof Uint8Array ? Buffer.from(file.bytes) : (file.bytes satisfies Readable),
  )
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
