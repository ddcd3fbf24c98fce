import { randomUUID } from 'node:crypto'
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { fastify, LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import { ERRORS, WaybillError, type ErrorCode } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { failure } from './envelope.ts'

/**
 * The HTTP server below the API: what Node.js and Fastify would answer by themselves, without the envelope or without
 * a request id, is answered here as every other refusal, and nothing waits without end.
 */

export interface Timeouts {
  /** A whole request must arrive within this time, a payload over a slow line too. */
  readonly requestMs: number
  readonly headersMs: number
  /** A connection on which nothing moves is closed; the comments of an event stream come every 20 seconds. */
  readonly idleMs: number
  readonly keepAliveMs: number
  /** How often the first two are looked at. */
  readonly checkEveryMs: number
  /** How often an event stream gets a comment, and its credential is looked at again. */
  readonly commentMs: number
}

export const TIMEOUTS: Timeouts = {
  requestMs: 300_000,
  headersMs: 30_000,
  idleMs: 120_000,
  keepAliveMs: 65_000,
  checkEveryMs: 5_000,
  commentMs: 20_000,
}

/** No part of a path is longer: Node.js refuses larger headers before. */
const LONGEST_PARAMETER = 16 * 1024

export function createHttpServer(log: Log, timeouts: Partial<Timeouts> = {}): FastifyInstance {
  const { requestMs, headersMs, idleMs, keepAliveMs, checkEveryMs } = { ...TIMEOUTS, ...timeouts }
  const loggerInstance: FastifyBaseLogger = log
  const server = fastify({
    loggerInstance,
    requestIdHeader: false,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: () => randomUUID(),
    requestTimeout: requestMs,
    connectionTimeout: idleMs,
    keepAliveTimeout: keepAliveMs,
    // A request without Host gets its answer where all requests do.
    http: { headersTimeout: headersMs, connectionsCheckingInterval: checkEveryMs, requireHostHeader: false },
    forceCloseConnections: 'idle',
    // What arrives on a kept connection while the server closes is answered as before, and the connection closed.
    return503OnClosing: false,
    routerOptions: { maxParamLength: LONGEST_PARAMETER },
    rewriteUrl: routablePath,
    frameworkErrors: (thrown, request, reply) => {
      request.log.warn({ err: thrown }, 'Request cannot be routed')
      reply.raw.statusCode = 400
      reply
        .header('x-request-id', request.id)
        .type('application/json; charset=utf-8')
        .send(JSON.stringify(failure(UNREADABLE)) as never)
    },
    clientErrorHandler: (error, socket) => {
      const code = RAW_REFUSALS[error.code ?? ''] ?? 'INVALID_INPUT'
      refuseRaw(socket, new WaybillError(code, 'The request cannot be read'), log)
    },
  })
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    server.server.emit('request', request, response)
  }
  // A client that asks before it sends its body is told to go on when the headers are accepted: see `continueBody`.
  server.server.on('checkContinue', answer)
  // RFC 9110 §10.1.1: any other expectation may be ignored.
  server.server.on('checkExpectation', answer)
  server.server.on('connect', (_request: IncomingMessage, socket: Socket) => {
    refuseRaw(socket, new WaybillError('METHOD_NOT_ALLOWED', 'This server is no proxy'), log)
  })
  return server
}

const UNREADABLE = new WaybillError('INVALID_INPUT', 'The request cannot be read')

/** Codes of Node.js for what comes too slowly or with too large headers. */
const RAW_REFUSALS: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'HEADERS_TOO_LARGE',
  ERR_HTTP_REQUEST_TIMEOUT: 'REQUEST_TIMEOUT',
}

/** Answers what is no HTTP request that the server could handle, and closes the connection. */
function refuseRaw(socket: Socket, refusal: WaybillError, log: Log): void {
  // It may have been closed from the other side meanwhile.
  socket.on('error', () => socket.destroy())
  if (!socket.writable) return
  const requestId = randomUUID()
  const { status } = ERRORS[refusal.code]
  log.debug({ requestId, status, reason: refusal.message }, 'Request refused')
  const body = JSON.stringify(failure(refusal))
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    `X-Request-Id: ${requestId}`,
    ...(refusal.code === 'METHOD_NOT_ALLOWED' ? ['Allow: GET, HEAD, POST, PUT, DELETE'] : []),
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

/** Tells a client that waits with its body to send it (RFC 9110 §15.2.1). */
export function continueBody(request: IncomingMessage, response: ServerResponse): void {
  if (/^100-continue$/i.test(request.headers.expect ?? '')) response.writeContinue()
}

/**
 * The path and query of a request, as the router can read it: of the absolute form of RFC 9112 §3.2.2 too, and with
 * a percent sign that begins no encoded character taken literally.
 */
function routablePath(request: Pick<IncomingMessage, 'url'>): string {
  const target = request.url ?? '/'
  const relative = /^https?:\/\//i.test(target) ? relativeForm(target) : target
  if (!relative.includes('%')) return relative
  const [path = '', ...query] = relative.split('?')
  return isDecodable(path) ? relative : [path.replaceAll('%', '%25'), ...query].join('?')
}

function relativeForm(target: string): string {
  return target.replace(/^https?:\/\/[^/?#]*/i, '').replace(/^(?!\/)/, '/')
}

function isDecodable(path: string): boolean {
  try {
    decodeURIComponent(path)
    return true
  } catch {
    return false
  }
}
