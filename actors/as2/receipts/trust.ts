import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { LEAST_TLS_VERSION } from '../sending/http-client.ts'
import type { TlsSettings } from '../profiles/tls-identity.ts'

/** Each holds all public authorities; a set that is full begins anew. */
const MAX_KEPT = 16

const contexts = new Map<string, SecureContext>()

/**
 * TLS with a host that a known partner names for its receipts, and that is not its own: what the profile trusts is trusted
 * there, too, beside the public authorities. Nothing of ours is shown, and the name must be right.
 */
export function trustOf({ ca }: TlsSettings): TlsSettings {
  if (ca === undefined) return {}
  // The rest keeps its connections apart from those of a profile that trusts its own authority alone.
  return { ca, secureContext: contextOf(ca), sessionIdContext: 'public authorities, too' }
}

/** Made once for each: a profile's own authority takes the place of the public ones, which are parsed anew with it. */
function contextOf(ca: string): SecureContext {
  const known = contexts.get(ca)
  if (known !== undefined) return known
  const made = createSecureContext({
    ca: [ca, ...getCACertificates('default')],
    allowPartialTrustChain: true,
    minVersion: LEAST_TLS_VERSION,
  })
  if (contexts.size >= MAX_KEPT) contexts.clear()
  contexts.set(ca, made)
  return made
}
