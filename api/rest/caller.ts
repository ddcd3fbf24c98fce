import type { IncomingHttpHeaders } from 'node:http'
import type { Config } from '../../runtime/config.ts'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { isLoopback } from '../../runtime/loopback.ts'

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
export function authenticator(
  { build, publicUrl }: Pick<Config, 'build' | 'publicUrl'>,
  checkToken: CheckToken,
): Authenticate {
  const publicHost = new URL(publicUrl).hostname
  return async ({ headers: { authorization, host, origin }, log }) => {
    if (authorization === undefined) {
      if (build !== 'developer') {
        throw new WaybillError('MISSING_AUTH_HEADER', 'The header Authorization is missing')
      }
      if (origin === undefined || isOurs(host, publicHost)) return DEVELOPER
      throw new WaybillError(
        'MISSING_AUTH_HEADER',
        'The header Authorization is missing; without it the developer build answers a browser as localhost alone',
      )
    }
    const token = BEARER.exec(authorization.trim())?.[1]
    if (token === undefined) {
      throw new WaybillError('INVALID_AUTH_HEADER', 'The header Authorization must be Bearer <token>')
    }
    return checkToken(token, log)
  }
}

/**
 * Whether a browser sent the request to a name of ours. A page can have its own name lead to this machine, and is of the
 * same origin then; the name that it was opened by still stands in `Host`, and whatever changes something has `Origin`.
 */
function isOurs(host: string | undefined, publicHost: string): boolean {
  const url = `http://${host ?? 'localhost'}`
  if (!URL.canParse(url)) return false
  const { hostname } = new URL(url)
  return isLoopback(hostname) || hostname.endsWith('.localhost') || hostname === publicHost
}
