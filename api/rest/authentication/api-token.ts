import { timingSafeEqual } from 'node:crypto'
import type { Pool } from 'pg'
import { WaybillError } from '../../../runtime/errors.ts'
import { findToken } from '../../../storage/identity/credentials.ts'
import { callerNameOf } from '../../../storage/identity/service-account.ts'
import { readToken } from '../../../storage/identity/token-text.ts'
import { InvalidToken } from './refusal.ts'
import type { Verified } from './verified.ts'

/** Stands for the digest of an unknown token. No text is known whose SHA-256 it is. */
const NO_DIGEST = Buffer.alloc(32)

/**
 * Checks an API token against its record. Whatever is wrong, the work is the same: one read by its public id, and one
 * comparison of the digest in constant time.
 *
 * @param sha256 of the token, in base64
 */
export async function checkApiToken(pool: Pool, token: string, sha256: string, now: Date): Promise<Verified> {
  const { publicId, wellFormed } = readToken(token)
  const found = await findToken(pool, publicId)
  const isSame = timingSafeEqual(Buffer.from(sha256, 'base64'), found.token_sha256 ?? NO_DIGEST)
  const { token_id, expires_at, account_id, account } = found
  const isKnown = token_id !== null && expires_at !== null && account_id !== null && account !== null
  if (!isSame || !wellFormed || !isKnown || found.revoked_at !== null || found.account_enabled !== true) {
    throw new InvalidToken('The API token is unknown or revoked, or its account is disabled')
  }
  if (expires_at.getTime() <= now.getTime()) {
    throw new WaybillError('TOKEN_EXPIRED', 'The API token has expired')
  }
  return {
    revision: found.revision,
    caller: Object.freeze({
      name: callerNameOf({ name: account }),
      credential: 'api-token',
      credentialName: publicId,
    }),
    expiresAt: expires_at,
    use: { accountId: account_id, tokenId: token_id },
  }
}
