import { createLocalJWKSet, errors, type JWTVerifyGetKey, type JSONWebKeySet, type JWK } from 'jose'
import type { Clock } from '../../../runtime/clock.ts'
import { reasonOf } from '../../../runtime/errors.ts'
import type { Log } from '../../../runtime/log.ts'
import { isLoopback } from '../../../runtime/loopback.ts'
import { fetchDocument } from './fetch-document.ts'

/** Keys so old are fetched anew before they are used. */
const FRESH_MS = 10 * 60_000
/** A provider that cannot be reached does not lock its callers out at once: keys serve so long. */
const STALE_MS = 60 * 60_000
/**
 * Who sends tokens with made-up key ids makes us ask the provider once in this time. It is asked at most so often too
 * while it fails.
 */
const COOLDOWN_MS = 30_000

export interface ProviderKeysOptions {
  readonly issuer: string
  readonly clock: Clock
  readonly log: Log
  /** As the provider sees us. */
  readonly userAgent: string
}

interface Fetched {
  readonly jwksUri: string
  readonly select: JWTVerifyGetKey
  readonly at: Date
}

/**
 * The keys of one provider: found through its discovery document, kept, and fetched anew when they are old or lack the
 * key that a token names. Requests that need them at the same time share one fetch.
 */
export class ProviderKeys {
  readonly #options: ProviderKeysOptions
  #fetched: Fetched | null = null
  #fetching: Promise<void> | null = null
  #failedAt: Date | null = null
  #searchedAt: Date | null = null

  constructor(options: ProviderKeysOptions) {
    this.#options = options
  }

  /** The key that a token's header names by its id. Nothing else in the header leads to a key. */
  readonly select: JWTVerifyGetKey = async (header, token) => {
    const { alg, kid } = header
    const named = kid === undefined ? { alg } : { alg, kid }
    const { select, at } = await this.#usable()
    try {
      return await select(named, token)
    } catch (thrown) {
      if (!(thrown instanceof errors.JWKSNoMatchingKey)) throw thrown
      const found = await this.#search(at)
      if (found === null) throw thrown
      return found.select(named, token)
    }
  }

  async #usable(): Promise<Fetched> {
    if (!this.#isWithin(this.#fetched?.at, FRESH_MS) && !this.#isWithin(this.#failedAt, COOLDOWN_MS)) {
      await this.#fetch('discovery')
    }
    const fetched = this.#fetched
    if (fetched !== null && this.#isWithin(fetched.at, STALE_MS)) return fetched
    throw new Error('The keys of the identity provider are not at hand')
  }

  /** Keys that are newer than those without the one that is looked for; null when there are none. */
  async #search(than: Date): Promise<Fetched | null> {
    if (!this.#isWithin(this.#searchedAt, COOLDOWN_MS) && !this.#isWithin(this.#failedAt, COOLDOWN_MS)) {
      this.#searchedAt = this.#options.clock.now()
      await this.#fetch('keys')
    } else {
      // The search of another request may find it.
      await this.#fetching
    }
    return this.#fetched !== null && this.#fetched.at !== than ? this.#fetched : null
  }

  #fetch(from: 'discovery' | 'keys'): Promise<void> {
    return (this.#fetching ??= this.#load(from).finally(() => {
      this.#fetching = null
    }))
  }

  /** Never rejects: a failure is told to the log, and what was fetched before serves on. */
  async #load(from: 'discovery' | 'keys'): Promise<void> {
    const { issuer, clock, log, userAgent } = this.#options
    try {
      const known = from === 'keys' ? this.#fetched?.jwksUri : undefined
      const jwksUri = known ?? jwksUriOf(issuer, await fetchDocument(discoveryUrl(issuer), userAgent))
      const keys = await fetchDocument(jwksUri, userAgent)
      const select = createLocalJWKSet(usable(keys))
      this.#fetched = { jwksUri, select, at: clock.now() }
      this.#failedAt = null
    } catch (thrown) {
      this.#failedAt = clock.now()
      log.warn({ issuer, reason: reasonOf(thrown) }, 'The keys of an identity provider cannot be fetched')
    }
  }

  #isWithin(at: Date | null | undefined, durationMs: number): boolean {
    return at != null && this.#options.clock.now().getTime() - at.getTime() < durationMs
  }
}

/** RFC 7517 §5: what is no key that we can use is left out, and the others still serve. */
function usable(set: unknown): JSONWebKeySet {
  const keys: unknown = typeof set === 'object' && set !== null && 'keys' in set ? set.keys : undefined
  if (!Array.isArray(keys)) throw new Error('The document of the keys is no set of keys')
  return { keys: keys.filter((key): key is JWK => typeof key === 'object' && key !== null) }
}

/** OpenID Connect Discovery 1.0 §4.1: a final slash of the issuer is left away. */
function discoveryUrl(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
}

/** Where a discovery document says the keys are. It must be that of the issuer, letter by letter (§4.3). */
function jwksUriOf(issuer: string, document: unknown): string {
  if (typeof document !== 'object' || document === null)
    throw new Error('The discovery document is no object')
  const { issuer: named, jwks_uri: uri } = document as { issuer?: unknown; jwks_uri?: unknown }
  if (named !== issuer) throw new Error('The discovery document is that of another issuer')
  if (typeof uri !== 'string' || !URL.canParse(uri))
    throw new Error('The discovery document names no jwks_uri')
  const { protocol, hostname } = new URL(uri)
  const plain = protocol === 'http:' && issuer.startsWith('http:') && isLoopback(hostname)
  if (protocol !== 'https:' && !plain) throw new Error('The jwks_uri is no https URL')
  return uri
}
