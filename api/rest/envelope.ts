import type { FastifyReply, FastifyRequest } from 'fastify'
import { ERRORS, reasonOf, WaybillError, type ErrorData } from '../../runtime/errors.ts'
import { isUnavailable } from '../../storage/postgres/unavailable.ts'
import { isStoreUnavailable } from '../../storage/storage-error.ts'

/** The shape around every JSON answer (specification, 2.1 rule 3), and how whatever is thrown becomes one. */

export interface Success {
  readonly data: unknown
  readonly error: null
}

export interface Failure {
  readonly data: null
  readonly error: ErrorData
}

export function success(data: unknown): Success {
  return { data, error: null }
}

/** A failure of the server tells the client nothing about its cause. */
const INTERNAL: ErrorData = { code: 'INTERNAL_ERROR', message: 'The server failed to answer the request' }

export function failure(error: WaybillError): Failure {
  const { code, message, details } = error
  return { data: null, error: details === undefined ? { code, message } : { code, message, details } }
}

/** When a client may repeat what was too much at once, or could not be done now. */
const RETRY_AFTER_SECONDS = 5

/** Sends a failure with the headers that belong to its status, and logs a cause that the client must not see. */
export function sendFailure(request: FastifyRequest, reply: FastifyReply, thrown: unknown): FastifyReply {
  const error = asWaybillError(thrown) ?? brokenOff(request, thrown) ?? outage(request, thrown)
  if (error === null) {
    request.log.error({ err: thrown, caller: request.caller.name }, 'Request failed')
    return reply.code(ERRORS.INTERNAL_ERROR.status).send({ data: null, error: INTERNAL } satisfies Failure)
  }
  const { status } = ERRORS[error.code]
  if (status === 401) reply.header('www-authenticate', 'Bearer')
  // RFC 9110 §15.5.16: a 415 tells in Accept what would have been taken.
  if (status === 415) reply.header('accept', request.routeOptions.config.mediaType ?? 'application/json')
  if (status === 503) reply.header('retry-after', RETRY_AFTER_SECONDS)
  if (status >= 500) logFailure(request, error)
  return reply.code(status).send(failure(error))
}

/** Only what nobody expects is an error of the server, and only there its place in the code tells something. */
function logFailure(request: FastifyRequest, error: WaybillError): void {
  const { code, message } = error
  const caller = request.caller.name
  if (code === 'INTERNAL_ERROR') request.log.error({ err: error, caller }, 'Request failed')
  // Its cause names the place, which is for the operator alone.
  else if (code === 'PAYLOAD_DAMAGED')
    request.log.error({ code, reason: reasonOf(error.cause), caller }, 'A stored payload is damaged')
  else request.log.warn({ code, reason: message, caller }, 'Request not carried out')
}

/** What we stand on is away. Where and why is for the log alone. */
function outage(request: FastifyRequest, thrown: unknown): WaybillError | null {
  const isDatabase = !isStoreUnavailable(thrown)
  if (isDatabase && !isUnavailable(thrown)) return null
  request.log.debug({ err: thrown, reason: reasonOf(thrown) }, 'Cannot be carried out now')
  return isDatabase
    ? new WaybillError('DATABASE_UNAVAILABLE', 'The database does not answer; repeat the request later')
    : new WaybillError('STORAGE_UNAVAILABLE', 'Payloads cannot be stored now; repeat the request later')
}

/** The connection may end within the request: then nobody reads the answer, and it is no failure of the server. */
function brokenOff(request: FastifyRequest, thrown: unknown): WaybillError | null {
  const { errored, socket } = request.raw
  // What an endpoint gives up because its client is gone.
  const givenUp = socket.destroyed && thrown instanceof Error && thrown.name === 'AbortError'
  if (errored === null && !givenUp) return null
  request.log.debug('The request broke off')
  return invalidBody('The body ended too early')
}

/** The HTTP server's own refusals in our words; null for what is no refusal but a defect. */
function asWaybillError(thrown: unknown): WaybillError | null {
  if (thrown instanceof WaybillError) return thrown
  const { code, statusCode, message } = facts(thrown)
  if (code?.startsWith('FST_') !== true) return null
  if (statusCode === 413) return tooLarge()
  if (statusCode === 415) return new WaybillError('UNSUPPORTED_MEDIA_TYPE', 'The Content-Type is malformed')
  return statusCode === 400 ? invalidBody(message) : null
}

export function tooLarge(): WaybillError {
  return new WaybillError('PAYLOAD_TOO_LARGE', 'The request body is too large')
}

/** A body that cannot be read as what it says it is. */
export function invalidBody(reason: string): WaybillError {
  return new WaybillError('INVALID_INPUT', 'Invalid request body', { body: reason })
}

function facts(thrown: unknown): { code?: string; statusCode?: number; message: string } {
  if (!(thrown instanceof Error)) return { message: String(thrown) }
  const code = 'code' in thrown && typeof thrown.code === 'string' ? { code: thrown.code } : {}
  const status =
    'statusCode' in thrown && typeof thrown.statusCode === 'number' ? { statusCode: thrown.statusCode } : {}
  return { ...code, ...status, message: thrown.message }
}
