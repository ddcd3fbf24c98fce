import type { Pool } from 'pg'
import type { Clock } from '../../../runtime/clock.ts'
import type { Caller } from '../../../runtime/endpoint/endpoint.ts'
import type { Log } from '../../../runtime/log.ts'
import { readRevision } from '../../../storage/identity/credentials.ts'
import type { LastUse } from '../../../storage/identity/last-use.ts'
import { isTokenText, sha256 } from '../../../storage/identity/token-text.ts'
import type { CheckToken } from '../caller.ts'
import { checkApiToken } from './api-token.ts'
import { IdentityTokens } from './identity-token.ts'
import { InvalidToken } from './refusal.ts'
import { SharedRead } from '../shared-read.ts'
import { VerifiedTokens } from './verified.ts'

export interface CheckTokenOptions {
  /** For the statements of every request; handlers do not use it. */
  readonly pool: Pool
  readonly lastUse: LastUse
  readonly clock: Clock
  readonly log: Log
  /** As identity providers see us. */
  readonly userAgent: string
}

/**
 * Turns a token into its caller. One that was accepted before is accepted again while the revision of the identity
 * records, which is read for every request, is the same: what was revoked or disabled before the request came is seen,
 * whichever node did it. One that is refused is never kept, and costs two statements, whatever is wrong with it.
 */
export function tokenChecker(options: CheckTokenOptions): CheckToken {
  const { pool, lastUse, clock } = options
  const revision = new SharedRead(() => readRevision(pool))
  const verified = new VerifiedTokens()
  const identityTokens = new IdentityTokens(options)

  const accepted = async (token: string): Promise<Caller> => {
    const digest = sha256(token)
    const known = verified.get(digest, await revision.current(), clock.now())
    const found =
      known ??
      (isTokenText(token)
        ? await checkApiToken(pool, token, digest, clock.now())
        : await identityTokens.check(token))
    if (known === undefined) verified.put(digest, found)
    if (found.use !== null) lastUse.note(found.use)
    return found.caller
  }

  return async (token, requestLog) => {
    try {
      return await accepted(token)
    } catch (thrown) {
      if (thrown instanceof InvalidToken) requestLog.debug({ reason: thrown.reason }, 'Token refused')
      throw thrown
    }
  }
}
