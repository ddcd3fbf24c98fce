import type { Endpoint } from '../../../runtime/endpoint/endpoint.ts'
import { ERRORS, type ErrorCode } from '../../../runtime/errors.ts'
import { mediaTypeOf } from '../body.ts'
import type { JsonObject } from './json.ts'

/** The error answers of an operation, from the catalogue of codes. */

const CREDENTIAL_CODES = [
  'MISSING_AUTH_HEADER',
  'INVALID_AUTH_HEADER',
  'INVALID_TOKEN',
  'TOKEN_EXPIRED',
] as const

/** The codes an endpoint gives: its own and those of the mechanism. */
function codesOf(endpoint: Endpoint): readonly ErrorCode[] {
  const codes = new Set<ErrorCode>(endpoint.errors)
  const { params, body } = endpoint
  if (!endpoint.public) {
    for (const code of CREDENTIAL_CODES) codes.add(code)
  }
  // Every request can be one that cannot be read, such as one without Host.
  codes.add('INVALID_INPUT')
  if (params !== undefined) codes.add('NOT_FOUND')
  if (mediaTypeOf(endpoint) !== null) codes.add('UNSUPPORTED_MEDIA_TYPE').add('PAYLOAD_TOO_LARGE')
  if (body?.kind === 'upload') codes.add('MISSING_HEADER')
  codes.add('INTERNAL_ERROR')
  if (endpoint.answer.kind !== 'bare') codes.add('DATABASE_UNAVAILABLE').add('STORAGE_UNAVAILABLE')
  return [...codes]
}

/** References to error answers by status; each combination of codes is one component of `responses`. */
export function failuresOf(endpoint: Endpoint, responses: Map<string, JsonObject>): JsonObject {
  const byStatus = Object.groupBy(codesOf(endpoint), (code) => ERRORS[code].status)
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, codes]) => {
      const name = codes.toSorted().join('.')
      responses.set(name, failureAnswer(codes.toSorted()))
      return [status, { $ref: `#/components/responses/${name}` }]
    }),
  )
}

function failureAnswer(codes: readonly ErrorCode[]): JsonObject {
  return {
    description: codes.map((code) => `\`${code}\`: ${ERRORS[code].when}`).join('\n\n'),
    headers: Object.fromEntries(
      ['X-Request-Id', ...codes.flatMap((code) => HEADERS[code] ?? [])].map((name) => [
        name,
        { $ref: `#/components/headers/${name}` },
      ]),
    ),
    content: {
      'application/json': {
        schema: failureSchema(codes),
        examples: Object.fromEntries(
          codes.map((code) => [code, { summary: ERRORS[code].when, value: exampleOf(code) }]),
        ),
      },
    },
  }
}

/** Headers that a refusal has beside its request id. */
const HEADERS: Partial<Record<ErrorCode, string>> = {
  UNSUPPORTED_MEDIA_TYPE: 'Accept',
  MISSING_AUTH_HEADER: 'WWW-Authenticate',
  INVALID_AUTH_HEADER: 'WWW-Authenticate',
  INVALID_TOKEN: 'WWW-Authenticate',
  TOKEN_EXPIRED: 'WWW-Authenticate',
  TOO_BUSY: 'Retry-After',
  DATABASE_UNAVAILABLE: 'Retry-After',
  STORAGE_UNAVAILABLE: 'Retry-After',
  QUEUE_FULL: 'Retry-After',
  SENDER_NOT_RUNNING: 'Retry-After',
  INSTANCE_UNAVAILABLE: 'Retry-After',
}

/** Details that show their shape, for the codes that have some. */
const EXAMPLE_DETAILS: Partial<Record<ErrorCode, JsonObject>> = {
  INVALID_INPUT: { name: 'is required' },
  CERTIFICATE_EXISTS: { existing_id: 7 },
  CERTIFICATE_IN_USE: {
    users: [
      {
        kind: 'as2-remote-profile',
        name: 'globex',
        fields: ['partner_certificate_id'],
        link: '/api/v1/as2/remote-profiles/3',
      },
    ],
    total: 1,
  },
  INVALID_STATE: { status: 'starting', allowed: [] },
  NOT_REDISPATCHABLE: { stage: 'accepted', allowed: ['dispatched', 'settled'] },
  NOT_REDELIVERABLE: { state: 'delivering', allowed: ['failed', 'stalled', 'retrying', 'delivered'] },
}

function exampleOf(code: ErrorCode): JsonObject {
  const details = EXAMPLE_DETAILS[code]
  const error = { code, message: code === 'INVALID_INPUT' ? 'Validation failed' : ERRORS[code].when }
  return { data: null, error: details === undefined ? error : { ...error, details } }
}

/** The envelope of a failure with one of these codes. */
function failureSchema(codes: readonly ErrorCode[]): JsonObject {
  return {
    type: 'object',
    description: 'The envelope of a failure.',
    properties: {
      data: { type: 'null', description: 'Null: the request failed.' },
      error: {
        type: 'object',
        description: 'What went wrong.',
        properties: {
          code: { type: 'string', enum: [...codes], description: 'For programs.' },
          message: { type: 'string', description: 'For people; it may change.' },
          details: { $ref: '#/components/schemas/FailureDetails' },
        },
        required: ['code', 'message'],
        additionalProperties: false,
      },
    },
    required: ['data', 'error'],
    additionalProperties: false,
  }
}

export const FAILURE_DETAILS: JsonObject = {
  type: 'object',
  description:
    'Present when there is something to add. A validation failure has one text per rejected property, under its name; `_form` for what blames none.',
}
