import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import cors from '@fastify/cors'
import helmet from '@fastify/helmet'
import multipart from '@fastify/multipart'
import { fastify, LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import type { Config } from '../../runtime/config.ts'
import type { Caller, Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { OperatorError, WaybillError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { parseJson } from './body.ts'
import { PUBLIC_CALLER } from './caller.ts'
import { failure, sendFailure } from './envelope.ts'
import { mountEndpoints } from './mount.ts'
import { describeApi } from './openapi/document.ts'
import { openApiEndpoint } from './openapi/endpoint.ts'

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller
  }
}

export interface ServerOptions {
  /** Of the core and of all installed modules. */
  readonly endpoints: readonly Endpoint[]
  readonly config: Pick<Config, 'build' | 'allowedOrigins' | 'publicUrl'>
  /** Of the product, for the OpenAPI document. */
  readonly version: string
  readonly log: Log
}

export const API_PREFIX = '/api/v1'

/** A whole request must arrive within this time, a payload over a slow line too. */
const REQUEST_TIMEOUT_MS = 300_000
const HEADERS_TIMEOUT_MS = 30_000
/** A connection on which nothing moves is closed; the comments of an event stream come every 20 seconds. */
const IDLE_TIMEOUT_MS = 120_000
const KEEP_ALIVE_TIMEOUT_MS = 65_000
/** Longest path parameter: every name and id is far shorter. */
const LONGEST_PARAMETER = 512

/** The REST API as a server that does not listen yet. */
export async function buildServer(options: ServerOptions): Promise<FastifyInstance> {
  const { config, log } = options
  const server = createServer(log)
  server.decorateRequest('caller')
  server.addHook('onRequest', async (request, reply) => {
    request.caller = PUBLIC_CALLER
    reply.header('x-request-id', request.id).header('cache-control', 'no-store')
  })
  server.addHook('onResponse', async (request, reply) => {
    const { method, url, caller } = request
    const path = url.split('?', 1)[0]
    request.log.debug(
      {
        method,
        path,
        status: reply.statusCode,
        caller: caller.name,
        elapsedMs: Math.round(reply.elapsedTime),
      },
      'Request answered',
    )
  })
  await secure(server, config)
  server.removeAllContentTypeParsers()
  server.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (_request: unknown, body: Buffer) => parseJson(body),
  )
  await server.register(multipart)
  server.setErrorHandler((thrown, request, reply) => sendFailure(request, reply, thrown))
  server.setNotFoundHandler(() => {
    throw new WaybillError('NOT_FOUND', 'No such path')
  })

  const document = { current: '' }
  const endpoints = [...options.endpoints, openApiEndpoint(() => document.current)]
  document.current = describeApi({
    endpoints,
    serverUrl: config.publicUrl + API_PREFIX,
    version: options.version,
  })
  await server.register(async (api) => mountEndpoints(api, { endpoints, build: config.build }), {
    prefix: API_PREFIX,
  })
  return server
}

function createServer(log: Log): FastifyInstance {
  const loggerInstance: FastifyBaseLogger = log
  return fastify({
    loggerInstance,
    requestIdHeader: false,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: () => randomUUID(),
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionTimeout: IDLE_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    http: { headersTimeout: HEADERS_TIMEOUT_MS },
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: LONGEST_PARAMETER },
    // A request that no route and no hook sees, such as one with a broken percent encoding.
    frameworkErrors: (thrown, request, reply) => {
      request.log.debug({ err: thrown }, 'Request cannot be routed')
      reply.raw.statusCode = 400
      reply
        .header('x-request-id', request.id)
        .type('application/json; charset=utf-8')
        .send(UNREADABLE as never)
    },
    clientErrorHandler: (error, socket) => {
      if (!socket.writable) return
      socket.end(rawRefusal(error.code))
    },
  })
}

const UNREADABLE = JSON.stringify(failure(new WaybillError('INVALID_INPUT', 'The request cannot be read')))

/** The answer to what is no HTTP request, or one that came too slowly or with too large headers. */
function rawRefusal(code: string | undefined): string {
  const status = code === 'HPE_HEADER_OVERFLOW' ? 431 : code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(UNREADABLE)}`,
    `X-Request-Id: ${randomUUID()}`,
    'Connection: close',
    '',
    UNREADABLE,
  ].join('\r\n')
}

async function secure(server: FastifyInstance, config: ServerOptions['config']): Promise<void> {
  await server.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
    },
    strictTransportSecurity: config.publicUrl.startsWith('https:'),
  })
  if (config.allowedOrigins.length === 0) return
  await server.register(cors, {
    origin: [...config.allowedOrigins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'],
    allowedHeaders: ['Authorization', 'Content-Type', 'X-Requested-With', 'Last-Event-ID'],
    exposedHeaders: ['X-Request-Id', 'Content-Disposition', 'Allow'],
    maxAge: 600,
    // Otherwise an OPTIONS request that is no preflight gets an answer outside the envelope.
    strictPreflight: false,
  })
}

/** The server cannot listen. The message is one sentence for the operator that names the setting. */
export class ListenError extends OperatorError {
  override readonly name = 'ListenError'
}

/**
 * Starts to listen and answers the port, which differs from the asked one when that is 0. Throws a ListenError.
 */
export async function listen(
  server: FastifyInstance,
  address: { readonly port: number; readonly host: string | undefined },
): Promise<number> {
  const { port, host } = address
  try {
    await listenOn(server, port, host ?? ALL_INTERFACES)
  } catch (thrown) {
    throw new ListenError(listenFailure(thrown, port, host), { cause: thrown })
  }
  const bound = server.server.address()
  if (bound === null || typeof bound === 'string') throw new Error('The server has no port')
  return bound.port
}

/** IPv6 and IPv4 at once; Fastify's own default would be loopback. */
const ALL_INTERFACES = '::'
const ALL_IPV4_INTERFACES = '0.0.0.0'

async function listenOn(server: FastifyInstance, port: number, host: string): Promise<void> {
  try {
    await server.listen({ port, host, listenTextResolver: () => 'API listens' })
  } catch (thrown) {
    if (host !== ALL_INTERFACES || codeOf(thrown) !== 'EAFNOSUPPORT') throw thrown
    await server.listen({ port, host: ALL_IPV4_INTERFACES, listenTextResolver: () => 'API listens' })
  }
}

function codeOf(thrown: unknown): unknown {
  return thrown instanceof Error && 'code' in thrown ? thrown.code : undefined
}

function listenFailure(thrown: unknown, port: number, host: string | undefined): string {
  switch (codeOf(thrown)) {
    case 'EADDRINUSE':
      return `HTTP_PORT: the port ${port} is in use by another program`
    case 'EACCES':
      return `HTTP_PORT: this user may not listen on port ${port}`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `HTTP_HOST: this machine has no address ${host ?? ''}`
    default:
      return `The API cannot listen on port ${port}: ${thrown instanceof Error ? thrown.message : String(thrown)}`
  }
}
