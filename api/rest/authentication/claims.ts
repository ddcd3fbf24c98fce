import type { JWTPayload, ProtectedHeaderParameters } from 'jose'

/** What a token says, held against what a provider's tokens must say (specification, 5.4 and 5.6). */

/** RFC 9068 §2.1; a media type may have its prefix (RFC 7515 §4.1.9). Many providers write no type, or `JWT`. */
const ACCESS_TOKEN_TYPES = new Set(['at+jwt', 'application/at+jwt'])
const UNSPECIFIC_TYPES = new Set(['jwt', 'application/jwt'])

/** Claims that tie an ID token to one sign-in (OpenID Connect Core 1.0 §2, §3.3.2.11); access tokens have none. */
const ID_TOKEN_CLAIMS = ['nonce', 'at_hash', 'c_hash', 's_hash']

/**
 * Why a token is no access token, or null. It matters because an ID token has the client id for its audience: where
 * that is what access tokens have too, whoever a user signs in at could use the user's ID token here.
 */
export function refusalOfType(
  header: Pick<ProtectedHeaderParameters, 'typ'>,
  payload: JWTPayload,
): string | null {
  const type = header.typ?.toLowerCase()
  if (type !== undefined && ACCESS_TOKEN_TYPES.has(type)) return null
  if (type !== undefined && !UNSPECIFIC_TYPES.has(type))
    return 'The type of the token is not that of an access token'
  const telling = ID_TOKEN_CLAIMS.find((claim) => payload[claim] !== undefined)
  if (telling !== undefined) return `The token has ${telling}, as an ID token has`
  if ('events' in payload) return 'The token tells an event'
  // Keycloak says in the payload what a token is, Amazon Cognito too.
  if (!isUnsetOr(payload['typ'], 'Bearer')) return 'The token says that it is no bearer token'
  if (!isUnsetOr(payload['token_use'], 'access')) return 'The token says that it is no access token'
  return null
}

function isUnsetOr(value: unknown, expected: string): boolean {
  return value === undefined || (typeof value === 'string' && value.toLowerCase() === expected.toLowerCase())
}

/** Whether the audience, one or a list, is or holds the expected one. */
export function audienceOf(payload: JWTPayload, expected: string): 'expected' | 'empty' | 'other' {
  const { aud } = payload
  const given: readonly unknown[] = Array.isArray(aud) ? aud : aud === undefined || aud === '' ? [] : [aud]
  if (given.length === 0) return 'empty'
  return expected !== '' && given.includes(expected) ? 'expected' : 'other'
}

/** A scope that the token lacks, or undefined. `scope` and `scp` count together, each a list or a text with spaces. */
export function missingScope(payload: JWTPayload, required: readonly string[]): string | undefined {
  const granted = new Set([...scopesIn(payload['scope']), ...scopesIn(payload['scp'])])
  return required.find((scope) => !granted.has(scope))
}

function scopesIn(claim: unknown): readonly unknown[] {
  if (Array.isArray(claim)) return claim
  return typeof claim === 'string' ? claim.split(' ') : []
}
