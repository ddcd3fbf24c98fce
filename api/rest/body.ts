import type { IncomingHttpHeaders } from 'node:http'
import { reasonOf, validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { Endpoint, UncheckedBody } from '../../runtime/endpoint/endpoint.ts'
import { invalidBody } from './envelope.ts'

/** What a body must be before anything reads its properties (specification, 4.1). */

/** Bound of every body except uploads, which have one of their own. */
export const BODY_LIMIT_BYTES = 1024 * 1024

const JSON_TYPE = /^application\/json(?:\s*;\s*charset=(?:utf-8|"utf-8"))?$/i
const MULTIPART_TYPE = /^multipart\/form-data\s*(?:;|$)/i

/** The media type an endpoint takes; null where a request has no body. */
export function mediaTypeOf(endpoint: Pick<Endpoint, 'method' | 'body'>): string | null {
  if (endpoint.method === 'GET') return null
  return endpoint.body?.kind === 'upload' ? 'multipart/form-data' : 'application/json'
}

/** Refuses a request by its headers, in the order of the checks. */
export function checkHeaders(endpoint: Endpoint, headers: IncomingHttpHeaders): void {
  const expected = mediaTypeOf(endpoint)
  if (expected === null) return
  const given = headers['content-type']?.trim() ?? ''
  const accepted = expected === 'application/json' ? JSON_TYPE : MULTIPART_TYPE
  if (!accepted.test(given)) {
    throw new WaybillError('UNSUPPORTED_MEDIA_TYPE', `The Content-Type must be ${expected}`)
  }
  if (endpoint.body?.kind === 'upload' && headers['x-requested-with'] === undefined) {
    throw new WaybillError('MISSING_HEADER', 'An upload needs the header X-Requested-With')
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Parses the bytes of a JSON body; an empty one is undefined. */
export function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined
  try {
    return JSON.parse(utf8.decode(bytes))
  } catch (thrown) {
    throw invalidBody(withoutExcerpt(reasonOf(thrown)))
  }
}

/** The parser quotes the body around the mistake, where a password may stand. */
function withoutExcerpt(reason: string): string {
  return reason.replace(/(^|, )(?:\.\.\.)?".*"(?:\.\.\.)? is not valid JSON$/s, '$1not valid JSON')
}

/**
 * The body as its endpoint takes it. An endpoint without a body takes nothing or an object without properties, and so
 * does an action that needs none.
 */
export function jsonBody(endpoint: Pick<Endpoint, 'body'>, value: unknown): UncheckedBody {
  if (value === undefined && endpoint.body === undefined) return { kind: 'none' }
  if (value === undefined) {
    if (endpoint.body?.kind === 'action' && endpoint.body.optional) return { kind: 'json', value: {} }
    throw invalidBody('The body is empty')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidBody('The body must be a JSON object')
  }
  if (endpoint.body !== undefined) return { kind: 'json', value: { ...value } }
  const names = Object.keys(value)
  if (names.length === 0) return { kind: 'none' }
  throw validationFailure(Object.fromEntries(names.map((name) => [name, 'unknown property'])))
}
