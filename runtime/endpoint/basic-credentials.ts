import { z } from 'zod'

/** User name and password of HTTP basic authentication: both or none. */

/** RFC 7617 §2: no colon, no control characters. */
export function basicUsername(password: string) {
  return z
    .string()
    .max(200)
    .regex(/^[^:\p{Cc}]*$/u, { error: 'must not contain a colon or control characters' })
    .default('')
    .describe(`User name of HTTP basic authentication, together with \`${password}\`; both empty are none.`)
    .meta({ examples: ['waybill'] })
}

export function basicPassword(username: string) {
  return z
    .string()
    .max(500)
    .regex(/^\P{Cc}*$/u, { error: 'must not contain control characters' })
    .default('')
    .describe(
      `Write-only. Password of HTTP basic authentication, together with \`${username}\`; both empty are none. An update that removes the user name must send it empty too.`,
    )
    .meta({ writeOnly: true, examples: ['correct horse battery staple'] })
}

/** Which of a user name and a password lacks the other; the values may be unchecked. */
export function basicPairLacks<U extends string, P extends string>(
  values: Readonly<Record<string, unknown>>,
  username: U,
  password: P,
): U | P | null {
  const has = (property: string): boolean => typeof values[property] === 'string' && values[property] !== ''
  if (has(username) && values[password] === '') return password
  return values[username] === '' && has(password) ? username : null
}

export function basicPairRefusal(other: string): string {
  return `is required with ${other}; both empty are none`
}

/** Refuses one of a user name and a password without the other. */
export function checkBasicPair<U extends string, P extends string>(
  settings: Readonly<Record<U | P, string>>,
  context: z.RefinementCtx,
  username: U,
  password: P,
): void {
  const lacking = basicPairLacks(settings, username, password)
  if (lacking === null) return
  const message = basicPairRefusal(lacking === username ? password : username)
  context.addIssue({ code: 'custom', path: [lacking], message })
}
