import type { IncomingHttpHeaders } from 'node:http'
import type { Config } from '../../runtime/config.ts'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'

/** Whose request it is. The one place that turns a credential into a caller (specification, section 5). */

/** The caller of an endpoint that needs no credential. */
export const PUBLIC_CALLER: Caller = Object.freeze({ name: 'anonymous', credential: 'none' })

const DEVELOPER: Caller = Object.freeze({ name: 'developer', credential: 'developer-build' })

/** RFC 6750 §2.1; the scheme's case does not count (RFC 9110 §11.1). */
const BEARER = /^bearer +[a-z0-9\-._~+/]+=*$/i

/**
 * The caller, or a WaybillError of status 401. The developer build lets a request without credential in; a
 * credential it is given is checked as in a release build. No kind of token is issued yet, so every one is refused.
 */
export function authenticate(build: Config['build'], headers: IncomingHttpHeaders): Caller {
  const { authorization } = headers
  if (authorization === undefined) {
    if (build === 'developer') return DEVELOPER
    throw new WaybillError('MISSING_AUTH_HEADER', 'The header Authorization is missing')
  }
  if (!BEARER.test(authorization.trim())) {
    throw new WaybillError('INVALID_AUTH_HEADER', 'The header Authorization must be Bearer <token>')
  }
  throw new WaybillError('INVALID_TOKEN', 'The token is not valid')
}
