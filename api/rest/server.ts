import cors, { type FastifyCorsOptions } from '@fastify/cors'
import multipart from '@fastify/multipart'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Config } from '../../runtime/config.ts'
import type { Caller, Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { OperatorError, WaybillError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import type { Webhook } from '../../runtime/module.ts'
import { parseJson } from './body.ts'
import { PUBLIC_CALLER, type Authenticate } from './caller.ts'
import { mountDocs } from './docs/page.ts'
import { sendFailure } from './envelope.ts'
import { EventStreams } from './event-streams.ts'
import { continueBody, createHttpServer, TIMEOUTS, type Timeouts } from './http-server.ts'
import { mountEndpoints } from './mount.ts'
import { openApiEndpoint } from './openapi/endpoint.ts'
import { refusalOf } from './unknown-path.ts'

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller
  }
  interface FastifyContextConfig {
    /** What the endpoint takes; null for no body. Routes that are no endpoints have none. */
    readonly mediaType?: string | null
  }
}

export interface ServerOptions {
  /** Of the core and of all installed modules. */
  readonly endpoints: readonly Endpoint[]
  /** What the installed modules post to others; left out: nothing. */
  readonly webhooks?: readonly Webhook[]
  readonly authenticate: Authenticate
  readonly config: Pick<Config, 'allowedOrigins' | 'publicUrl'>
  /** Of the product, for the OpenAPI document. */
  readonly version: string
  readonly log: Log
  readonly timeouts?: Partial<Timeouts>
}

export const API_PREFIX = '/api/v1'

/** A name that only this machine knows is of no use in a document that travels: the document's own address counts then. */
function serverUrl(publicUrl: string): string {
  return new URL(publicUrl).hostname === 'localhost' ? API_PREFIX : publicUrl + API_PREFIX
}

/** The REST API as a server that does not listen yet. */
export async function buildServer(options: ServerOptions): Promise<FastifyInstance> {
  const { config, log, timeouts, authenticate } = options
  const endpoints: Endpoint[] = [...options.endpoints, openApiEndpoint(() => documentOf(endpoints, options))]

  const server = createHttpServer(log, timeouts)
  followRequests(server, options)
  await letOriginsIn(server, config.allowedOrigins)
  takeBodies(server)
  await server.register(multipart)
  const { commentMs } = { ...TIMEOUTS, ...timeouts }
  const streams = await EventStreams.register(server, { authenticate, commentMs })
  server.setErrorHandler((thrown, request, reply) => sendFailure(request, reply, thrown))
  const known = { endpoints, prefix: API_PREFIX, authenticate }
  // Before a body is read: what it is does not matter to a path that is not there.
  server.addHook('onRequest', async (request, reply) => {
    if (request.is404) throw await refusalOf(request, reply, known)
  })
  server.setNotFoundHandler(async (request, reply) => {
    throw await refusalOf(request, reply, known)
  })
  await server.register(async (api) => mountEndpoints(api, { endpoints, authenticate, streams }), {
    prefix: API_PREFIX,
  })
  mountDocs(server)
  return server
}

/** Its making, and what that is made with, take a third of a start: most processes are never asked for it. */
async function documentOf(
  endpoints: readonly Endpoint[],
  { config, webhooks = [], version }: ServerOptions,
): Promise<string> {
  const { describeApi } = await import('./openapi/document.ts')
  return describeApi({ endpoints, webhooks, serverUrl: serverUrl(config.publicUrl), version })
}

/**
 * What an answer tells a browser: it is data of this server alone, for no page and no cache. They never change, so they
 * are no plugin's work: `@fastify/helmet` makes them anew for each request, which takes a tenth of its CPU.
 */
const SECURITY_HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const
const HTTPS_ONLY = { 'strict-transport-security': 'max-age=31536000; includeSubDomains' } as const

/** Gives every request its id and its caller, and says at the end how it went. */
function followRequests(server: FastifyInstance, { config, log }: ServerOptions): void {
  const security = { ...SECURITY_HEADERS, ...(config.publicUrl.startsWith('https:') ? HTTPS_ONLY : {}) }
  server.decorateRequest('caller')
  server.addHook('onRequest', async (request, reply) => {
    request.caller = PUBLIC_CALLER
    reply.headers(security).header('x-request-id', request.id)
    const { httpVersion, headers } = request.raw
    if (httpVersion === '1.1' && headers.host === undefined) {
      throw new WaybillError('INVALID_INPUT', 'The header Host is missing')
    }
  })
  if (!log.isLevelEnabled('debug')) return
  server.addHook('onResponse', async (request, reply) => {
    const { method, url, caller } = request
    const facts = { method, path: url.split('?', 1)[0], status: reply.statusCode, caller: caller.name }
    request.log.debug({ ...facts, elapsedMs: Math.round(reply.elapsedTime) }, 'Request answered')
  })
}

/** JSON is parsed by us and nothing else is; an upload's parts are read by its endpoint. */
function takeBodies(server: FastifyInstance): void {
  server.removeAllContentTypeParsers()
  server.addHook('preParsing', (request, reply, payload, done) => {
    continueBody(request.raw, reply.raw)
    done(null, payload)
  })
  server.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (_request: unknown, body: Buffer) => parseJson(body),
  )
}

/** Without ALLOWED_ORIGINS no answer has a CORS header, and a browser refuses every page of another origin. */
async function letOriginsIn(server: FastifyInstance, origins: readonly string[]): Promise<void> {
  if (origins.length === 0) return
  const options: FastifyCorsOptions = {
    origin: [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'],
    allowedHeaders: ['Authorization', 'Content-Type', 'X-Requested-With', 'Last-Event-ID', 'Idempotency-Key'],
    exposedHeaders: ['X-Request-Id', 'Content-Disposition', 'Allow'],
    maxAge: 600,
  }
  await server.register(cors, {
    // An OPTIONS request that is no preflight is a request as any other.
    delegator: (request: FastifyRequest, done: (error: Error | null, options?: FastifyCorsOptions) => void) =>
      done(null, { ...options, preflight: isPreflight(request) }),
  })
}

function isPreflight({ method, headers }: FastifyRequest): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
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
