import type { IncomingHttpHeaders } from 'node:http'
import type { Config } from '../../runtime/config.ts'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'

/** Whose request it is (specification, section 5). */

/** The caller of an endpoint that needs no credential. */
export const PUBLIC_CALLER: Caller = Object.freeze({ name: 'anonymous', credential: 'none' })

const DEVELOPER: Caller = Object.freeze({ name: 'developer', credential: 'developer-build' })

/** RFC 6750 §2.1; the scheme's case does not count (RFC 9110 §11.1). */
const BEARER = /^bearer +([a-z0-9\-._~+/]+=*)$/i

/** What a request is authenticated by; the log carries its id. */
export interface Asking {
  readonly headers: IncomingHttpHeaders
  readonly log: Pick<Log, 'debug'>
}

/** Turns the token of a request into its caller, or throws a WaybillError of status 401. */
export type CheckToken = (token: string, log: Asking['log']) => Promise<Caller>

/** The one place that turns a request into its caller, or throws a WaybillError of status 401. */
export type Authenticate = (request: Asking) => Promise<Caller>

/** The developer build lets a request without credential in; one that it is given is checked as in a release build. */
export function authenticator(build: Config['build'], checkToken: CheckToken): Authenticate {
  return async ({ headers: { authorization }, log }) => {
    if (authorization === undefined) {
      if (build === 'developer') return DEVELOPER
      throw new WaybillError('MISSING_AUTH_HEADER', 'The header Authorization is missing')
    }
    const token = BEARER.exec(authorization.trim())?.[1]
    if (token === undefined) {
      throw new WaybillError('INVALID_AUTH_HEADER', 'The header Authorization must be Bearer <token>')
    }
    return checkToken(token, log)
  }
}
