import type { StorageProblem } from '../../storage-error.ts'
import { reasonOf } from '../../../runtime/errors.ts'
import type { Reading } from '../failure.ts'

/**
 * What an S3 service refuses, by its code: the kind of it, and words for an operator. The service's own sentence is told
 * only where it helps and holds no credentials.
 */
const KNOWN: Readonly<Record<string, readonly [StorageProblem, string]>> = {
  AccessDenied: ['refused', 'Access is denied: the credentials have no right to do this'],
  AccountProblem: ['refused', 'The account has a problem'],
  AllAccessDisabled: ['refused', 'All access to the bucket is disabled'],
  AuthorizationHeaderMalformed: ['refused', 'The bucket is in another region'],
  CredentialsProviderError: [
    'refused',
    'The environment of the process has no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or another source of the AWS SDK',
  ],
  ExpiredToken: ['refused', 'The credentials have expired'],
  Forbidden: ['refused', 'Access is denied'],
  InvalidAccessKeyId: ['refused', 'The access key is unknown'],
  InvalidSecurity: ['refused', 'The credentials are not valid'],
  InvalidToken: ['refused', 'The session token is not valid'],
  NoSuchBucket: ['refused', 'The bucket does not exist'],
  NotSignedUp: ['refused', 'The account has no access to the service'],
  PermanentRedirect: ['refused', 'The bucket is in another region, or at another endpoint'],
  QuotaExceeded: ['full', 'The quota of the bucket is used up'],
  RequestTimeTooSkewed: ['refused', 'The clocks of this machine and of the service differ too much'],
  SignatureDoesNotMatch: ['refused', 'The secret access key is wrong'],
  InsufficientCapacity: ['full', 'The storage of the service is full'],
  ServiceQuotaExceededException: ['full', 'The quota of the service is used up'],
  StorageFull: ['full', 'The storage of the service is full'],
  XAdminUserNotFound: ['refused', 'The access key is unknown'],
  XMinioStorageFull: ['full', 'The storage of the service is full'],
  XMinioAdminBucketQuotaExceeded: ['full', 'The quota of the bucket is used up'],
}

/** What the network refuses. */
const NETWORK: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Nothing listens at the endpoint',
  ECONNRESET: 'The service broke the connection off',
  EAI_AGAIN: 'The name of the endpoint cannot be looked up',
  EHOSTUNREACH: 'The endpoint cannot be reached',
  ENETUNREACH: 'The endpoint cannot be reached',
  ENOTFOUND: 'The name of the endpoint is unknown',
  EPIPE: 'The service broke the connection off',
  EPROTO: 'The endpoint does not speak TLS',
  ETIMEDOUT: 'The service does not answer',
}

const MAX_REASON_LENGTH = 200

interface Failure {
  readonly name?: unknown
  readonly code?: unknown
  readonly Code?: unknown
  readonly $metadata?: { readonly httpStatusCode?: number }
}

export const S3: Reading = { problemOf, kindOf }

/** Why a request to S3 failed, in words where we have some. */
function problemOf(thrown: unknown): string {
  const { code, status } = factsOf(thrown)
  const known = KNOWN[code]
  if (known !== undefined) return `${known[1]} (${code})`
  const network = networkCodeOf(thrown)
  if (network !== null) return `${NETWORK[network]} (${network})`
  if (isTimeout(thrown)) return 'The service does not answer in time'
  const reason = plain(reasonOf(thrown))
  if (status === null) return reason
  return `The service answered ${status} (${[code, reason].filter((part) => part !== '').join(': ')})`
}

function kindOf(thrown: unknown): StorageProblem {
  const { code, status } = factsOf(thrown)
  const known = KNOWN[code]
  if (known !== undefined) return known[0]
  if (networkCodeOf(thrown) !== null || isTimeout(thrown)) return 'unreachable'
  if (status === 507) return 'full'
  if (status === 401 || status === 403) return 'refused'
  if (status === 429 || status === 503) return 'unreachable'
  if (status !== null && status >= 500) return 'failing'
  // No answer at all: of the network, in words that we do not know.
  return status === null ? 'unreachable' : 'unusable'
}

/** Whether S3 says that there is no such object. */
export function isMissing(thrown: unknown): boolean {
  return factsOf(thrown).code === 'NoSuchKey'
}

/** Whether S3 says that there is no such multipart upload. */
export function isUploadMissing(thrown: unknown): boolean {
  return factsOf(thrown).code === 'NoSuchUpload'
}

function factsOf(thrown: unknown): { readonly code: string; readonly status: number | null } {
  if (!(thrown instanceof Error)) return { code: '', status: null }
  const { name, Code, $metadata } = thrown as Failure
  const code = typeof Code === 'string' ? Code : String(name)
  return { code: plain(code), status: $metadata?.httpStatusCode ?? null }
}

/** The code of a failed connection, which may be the cause of what was thrown, or one of several. */
function networkCodeOf(thrown: unknown): string | null {
  for (let at = thrown; at instanceof Error; at = at.cause) {
    const { code } = at as Failure
    if (typeof code === 'string' && code in NETWORK) return code
    const first = at instanceof AggregateError ? networkCodeOf(at.errors[0]) : null
    if (first !== null) return first
  }
  return null
}

function isTimeout(thrown: unknown): boolean {
  return thrown instanceof Error && ['TimeoutError', 'AbortError'].includes(thrown.name)
}

/** What a service says, as one short line. */
function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, ' ').slice(0, MAX_REASON_LENGTH)
}
