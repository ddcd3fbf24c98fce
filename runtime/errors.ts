/**
 * The catalogue of error codes. It is the only place that knows an HTTP status and whether a repeat can help.
 * Specification, section 7, and the project's own codes for what it leaves open.
 */
interface ErrorFacts {
  /** HTTP status of an answer with this code. */
  readonly status: number
  /** Whether the same request may succeed later without being changed. */
  readonly retry: boolean
  /** One sentence for the OpenAPI document. */
  readonly when: string
}

export const ERRORS = {
  INVALID_INPUT: {
    status: 400,
    retry: false,
    when: 'Malformed body, path id or query parameter, or failed validation.',
  },
  MISSING_HEADER: { status: 400, retry: false, when: 'An upload without the header X-Requested-With.' },
  MISSING_TYPE: {
    status: 400,
    retry: false,
    when: 'A plugin configuration without the query parameter type.',
  },
  INVALID_TYPE: { status: 400, retry: false, when: 'An unknown plugin type.' },
  INVALID_ACTION: { status: 400, retry: false, when: 'A service action other than start, stop or restart.' },
  MISSING_AUTH_HEADER: { status: 401, retry: false, when: 'No Authorization header.' },
  INVALID_AUTH_HEADER: {
    status: 401,
    retry: false,
    when: 'The Authorization header is not `Bearer <token>`.',
  },
  INVALID_TOKEN: { status: 401, retry: false, when: 'The token is not accepted; the answer never says why.' },
  TOKEN_EXPIRED: { status: 401, retry: false, when: 'The API token has expired.' },
  NOT_CONTROLLABLE: { status: 403, retry: false, when: 'An action on the API server.' },
  NOT_FOUND: { status: 404, retry: false, when: 'No such record or path.' },
  METHOD_NOT_ALLOWED: {
    status: 405,
    retry: false,
    when: 'The path exists, the method does not; Allow names those that do.',
  },
  REQUEST_TIMEOUT: { status: 408, retry: true, when: 'The request did not arrive in time.' },
  CONFLICT: {
    status: 409,
    retry: false,
    when: 'A record with the same name exists, or the record is in use.',
  },
  CERTIFICATE_EXISTS: { status: 409, retry: false, when: 'The same certificate is stored.' },
  CERTIFICATE_IN_USE: { status: 409, retry: false, when: 'A profile still uses the certificate.' },
  NOT_REDISPATCHABLE: {
    status: 409,
    retry: true,
    when: 'The source of the message still owns it; `details.stage` and `details.allowed` say what it is and could be.',
  },
  NOT_REDELIVERABLE: {
    status: 409,
    retry: true,
    when: 'The delivery is still under way; `details.state` and `details.allowed` say what it is and could be.',
  },
  AUDIT_KEY_REQUIRED: {
    status: 409,
    retry: false,
    when: 'The audit log has events with a hash, and the process has no AUDIT_KEY to verify them with.',
  },
  INVALID_STATE: {
    status: 409,
    retry: true,
    when: 'The instance is in a state in which the action is not possible.',
  },
  PAYLOAD_TOO_LARGE: { status: 413, retry: false, when: 'The request body is above its limit.' },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    retry: false,
    when: 'The Content-Type is missing or not the one the operation takes.',
  },
  HEADERS_TOO_LARGE: { status: 431, retry: false, when: 'The headers of the request are too large.' },
  INTERNAL_ERROR: { status: 500, retry: true, when: 'A failure of the server; the cause is logged.' },
  PAYLOAD_DAMAGED: {
    status: 500,
    retry: false,
    when: 'The stored payload is missing, or its bytes are not those that were stored; where it should lie is logged.',
  },
  START_FAILED: { status: 500, retry: true, when: 'The instance did not start; the message is the reason.' },
  TOO_BUSY: {
    status: 503,
    retry: true,
    when: 'The server has more work of this kind in hand than it takes at once; Retry-After says when to repeat.',
  },
  DATABASE_UNAVAILABLE: {
    status: 503,
    retry: true,
    when: 'The database does not answer; whether a change was made is not known. Retry-After says when to repeat.',
  },
  STORAGE_UNAVAILABLE: {
    status: 503,
    retry: true,
    when: 'Payloads cannot be stored or read now, such as on a full disk; Retry-After says when to repeat.',
  },
  QUEUE_FULL: {
    status: 503,
    retry: true,
    when: 'So many deliveries wait for the target that nothing more is taken in for it; Retry-After says when to repeat.',
  },
  SENDER_NOT_RUNNING: {
    status: 503,
    retry: true,
    when: 'A connection is to be checked from an AS2 sender that does not run.',
  },
  INSTANCE_UNAVAILABLE: {
    status: 503,
    retry: true,
    when: 'The instance ended, or did not answer in time.',
  },
} as const satisfies Record<string, ErrorFacts>

export type ErrorCode = keyof typeof ERRORS

/** Facts beside the message: JSON values only, so that they cross threads and reach clients as they are. */
export type ErrorDetails = Readonly<Record<string, unknown>>

/** An error as it crosses a thread or reaches a client. */
export interface ErrorData {
  readonly code: ErrorCode
  readonly message: string
  readonly details?: ErrorDetails
}

/** A failure with a code of the catalogue. Anything else that is thrown is an INTERNAL_ERROR. */
export class WaybillError extends Error {
  override readonly name = 'WaybillError'
  readonly code: ErrorCode
  readonly details: ErrorDetails | undefined

  constructor(code: ErrorCode, message: string, details?: ErrorDetails, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.details = details
  }
}

/**
 * A validation failure: `details` has one entry per rejected field, keyed by its JSON property name;
 * what blames no field stands under `_form`.
 */
export function validationFailure(details: Readonly<Record<string, string>>): WaybillError {
  return new WaybillError('INVALID_INPUT', 'Validation failed', details)
}

/**
 * Something outside of the program is wrong: a setting, a port, a directory, a database. The message is one sentence
 * for the operator, without credentials; whoever starts the process prints it alone.
 */
export class OperatorError extends Error {
  override readonly name: string = 'OperatorError'
}

/** The message of anything that was thrown. */
export function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

/** A failure as one line for the operator; of a validation failure each property with its reason. */
export function describeFailure(error: OperatorError | WaybillError): string {
  const details = error instanceof WaybillError ? Object.entries(error.details ?? {}) : []
  const texts = details.map(([property, text]) => `${property}: ${String(text)}`)
  return texts.length === 0 ? error.message : texts.join('; ')
}

export function toErrorData(thrown: unknown): ErrorData {
  if (!(thrown instanceof WaybillError)) return { code: 'INTERNAL_ERROR', message: reasonOf(thrown) }
  const { code, message, details } = thrown
  return details === undefined ? { code, message } : { code, message, details }
}

export function fromErrorData(data: ErrorData): WaybillError {
  return new WaybillError(data.code, data.message, data.details)
}
