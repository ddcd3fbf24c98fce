import { z } from 'zod'

/**
 * Parameters that make a URL carry a credential, in any case, with hyphens or underscores. Such a URL would show up in
 * logs and answers, so it is refused (specification, 2.1 rule 9); userinfo likewise.
 */
const CREDENTIAL_PARAMETERS: ReadonlySet<string> = new Set([
  'token',
  'access_token',
  'api_key',
  'apikey',
  'key',
  'secret',
  'password',
  'passwd',
  'pwd',
  'auth',
  'sig',
  'signature',
  'auth_token',
  'authorization',
  'bearer',
  'client_secret',
  'id_token',
  'jwt',
  'refresh_token',
  'x_amz_security_token',
  'x_amz_signature',
  'x_api_key',
  'x_goog_signature',
])

/** A list such as `token[]` carries what `token` does. */
function isCredential(parameter: string): boolean {
  const name = parameter
    .trim()
    .toLowerCase()
    .replaceAll('-', '_')
    .replace(/\[\w*\]$/, '')
  return CREDENTIAL_PARAMETERS.has(name)
}

/**
 * Why a text cannot be the address of a target, or null.
 *
 * @param allowed the one credential, as it is written, that an address which is itself write-only may carry.
 */
export function refusalOfUrl(text: string, allowed: string | null = null): string | null {
  if (!URL.canParse(text) || /\s/.test(text)) return 'must be an absolute http or https URL'
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'must be an absolute http or https URL'
  if (url.username !== '' || url.password !== '') return 'must not carry a user name or password'
  if (url.hash !== '') return 'must not have a fragment'
  for (const name of url.searchParams.keys()) {
    if (name !== allowed && isCredential(name)) return `must not carry a credential in the parameter ${name}`
  }
  return null
}

/** An absolute http or https URL without a credential, at most 2,000 characters. */
export const targetUrl = urlAllowing(null)

/** The same, and it may carry one credential; see `refusalOfUrl`. */
export function urlAllowing(allowed: string | null) {
  return z
    .string()
    .max(2000)
    .superRefine((text, context) => {
      const refusal = refusalOfUrl(text, allowed)
      if (refusal !== null) context.addIssue({ code: 'custom', message: refusal })
    })
    .meta({ format: 'uri' })
}
