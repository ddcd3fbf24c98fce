import { decodeJwt, decodeProtectedHeader, jwtVerify, type JWTPayload } from 'jose'
import type { Pool } from 'pg'
import type { Clock } from '../../../runtime/clock.ts'
import type { Caller } from '../../../runtime/endpoint/endpoint.ts'
import { unstorableProperties } from '../../../runtime/endpoint/validation.ts'
import { reasonOf } from '../../../runtime/errors.ts'
import type { Log } from '../../../runtime/log.ts'
import { findIdentity, type FoundIdentity } from '../../../storage/identity/credentials.ts'
import { callerNameOf } from '../../../storage/identity/service-account.ts'
import { audienceOf, missingScope, refusalOfType } from './claims.ts'
import { ProviderKeys } from './provider-keys.ts'
import { InvalidToken } from './refusal.ts'
import type { Verified } from './verified.ts'

/** Signatures by a private key that the provider alone has. Nothing symmetric, and never `none`. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
]
/** Longer ones are not read. */
const LONGEST_TOKEN_BYTES = 8 * 1024
/** A token is verified anew after this time, so that a key that its provider has withdrawn counts no longer. */
const TRUST_MS = 10 * 60_000
/** Providers whose keys are kept. */
const MOST_KEY_SETS = 1_000

export interface IdentityTokensOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Log
  /** As providers see us. */
  readonly userAgent: string
}

interface KeySet {
  /** Of the provider's record: one that was saved anew starts without keys. */
  readonly version: number
  readonly issuer: string
  readonly keys: ProviderKeys
}

interface Provider {
  readonly name: string
  readonly id: number
  readonly version: number
  readonly audience: string
  readonly scopes: readonly string[]
  readonly acceptsNoAudience: boolean
}

/** Checks the JWTs of identity providers, locally. */
export class IdentityTokens {
  readonly #options: IdentityTokensOptions
  readonly #keySets = new Map<number, KeySet>()

  constructor(options: IdentityTokensOptions) {
    this.#options = options
  }

  /** Throws an InvalidToken for everything that is wrong with the token. */
  async check(token: string): Promise<Verified> {
    const claims = claimed(token)
    // What is no token is looked up too: it is refused no sooner than one.
    const issuer = claims.refusal === undefined ? claims.issuer : ''
    const subject = claims.refusal === undefined ? claims.subject : ''
    const found = await findIdentity(this.#options.pool, issuer, subject)
    if (claims.refusal !== undefined) throw new InvalidToken(claims.refusal)
    const { type } = claims
    const provider = providerOf(found)
    if (provider === null) throw new InvalidToken('No enabled identity provider has the issuer of the token')
    const payload = await this.#verified(token, issuer, provider)
    // Only now: what an unsigned text claims must not tell who is registered.
    const refusal = refusalOfType(type, payload)
    if (refusal !== null) throw new InvalidToken(refusal)
    // RFC 9449 §7.1, RFC 8705 §3: it is good only with a proof that its holder has a key, which a bearer does not give.
    if (payload['cnf'] !== undefined) throw new InvalidToken('The token is bound to a key of its holder')
    const missing = missingScope(payload, provider.scopes)
    if (missing !== undefined) throw new InvalidToken(`The token lacks the scope ${missing}`)
    const audience = audienceOf(payload, provider.audience)
    if (audience === 'other') throw new InvalidToken('The token is meant for another audience')
    if (audience === 'empty' && (!provider.acceptsNoAudience || found.account_id === null)) {
      throw new InvalidToken('The token has no audience')
    }
    const { caller, use } = holderOf(found, provider, subject)
    const expiresMs = Math.min((payload.exp ?? 0) * 1000, this.#options.clock.now().getTime() + TRUST_MS)
    return { revision: found.revision, caller, use, expiresAt: new Date(expiresMs) }
  }

  /** What the token says, once its signature, issuer and times are known to be right. */
  async #verified(token: string, issuer: string, provider: Provider): Promise<JWTPayload> {
    const keys = this.#keysOf(provider, issuer)
    try {
      const { payload } = await jwtVerify(token, keys.select, {
        issuer,
        algorithms: ALGORITHMS,
        requiredClaims: ['exp', 'sub'],
        currentDate: this.#options.clock.now(),
        clockTolerance: 0,
      })
      return payload
    } catch (thrown) {
      throw new InvalidToken(reasonOf(thrown))
    }
  }

  #keysOf(provider: Provider, issuer: string): ProviderKeys {
    const kept = this.#keySets.get(provider.id)
    if (kept?.version === provider.version && kept.issuer === issuer) return kept.keys
    const { clock, log, userAgent } = this.#options
    const keys = new ProviderKeys({ issuer, clock, log, userAgent })
    const [oldest] = this.#keySets.keys()
    if (this.#keySets.size >= MOST_KEY_SETS && oldest !== undefined) this.#keySets.delete(oldest)
    this.#keySets.set(provider.id, { version: provider.version, issuer, keys })
    return keys
  }
}

interface Claimed {
  readonly refusal?: undefined
  readonly issuer: string
  readonly subject: string
  readonly type: { readonly typ?: string }
}

/** What a token claims, unverified, only to find the provider and the key; or why it is no usable JWT. */
function claimed(token: string): Claimed | { readonly refusal: string } {
  if (token.length > LONGEST_TOKEN_BYTES) return { refusal: 'The token is too long' }
  try {
    const { crit, typ } = decodeProtectedHeader(token)
    const { iss: issuer, sub: subject } = decodeJwt(token)
    if (crit !== undefined) return { refusal: 'The token has critical extensions' }
    if (typeof issuer !== 'string' || typeof subject !== 'string' || subject === '') {
      return { refusal: 'The token lacks an issuer or a subject' }
    }
    if (unstorableProperties({ issuer, subject }).length > 0) {
      return { refusal: 'The issuer or the subject is no text that can be stored' }
    }
    if (typ !== undefined && typeof typ !== 'string') return { refusal: 'The type of the token is no text' }
    return { issuer, subject, type: typ === undefined ? {} : { typ } }
  } catch (thrown) {
    return { refusal: `The token is no JWT: ${reasonOf(thrown)}` }
  }
}

function providerOf(found: FoundIdentity): Provider | null {
  const { provider: name, provider_id: id, provider_updated_at: updatedAt } = found
  if (name === null || id === null || updatedAt === null) return null
  const audience = found.api_audience ?? ''
  return {
    name,
    id,
    version: updatedAt.getTime(),
    audience: audience === '' ? (found.client_id ?? '') : audience,
    scopes: (found.api_scopes ?? '').split(' ').filter((scope) => scope !== ''),
    acceptsNoAudience: found.accept_tokens_without_audience ?? false,
  }
}

/** The account or user registered for the identity, if it is enabled. No identity is that of both. */
function holderOf(
  found: FoundIdentity,
  provider: Provider,
  subject: string,
): { readonly caller: Caller; readonly use: Verified['use'] } {
  const proof = { credential: 'identity-token', credentialName: provider.name } as const
  if (found.account_id !== null && found.account !== null && found.account_enabled === true) {
    const name = callerNameOf({ name: found.account })
    return { caller: Object.freeze({ name, ...proof }), use: { accountId: found.account_id } }
  }
  if (found.account_id === null && found.user_enabled === true) {
    return { caller: Object.freeze({ name: subject, ...proof }), use: null }
  }
  throw new InvalidToken('Nobody who is enabled is registered for the subject of the token')
}
