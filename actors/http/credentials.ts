import { z } from 'zod'

/** The settings by which a request says who sends it. */

/** RFC 7617 §2: no colon, no control characters. */
export function basicUsername(password: string) {
  return z
    .string()
    .max(200)
    .regex(/^[^:\p{Cc}]*$/u, { error: 'must not contain a colon or control characters' })
    .default('')
    .describe(`User name of HTTP basic authentication, together with \`${password}\`; empty for none.`)
    .meta({ examples: ['waybill'] })
}

export function basicPassword(username: string) {
  return z
    .string()
    .max(500)
    .regex(/^\P{Cc}*$/u, { error: 'must not contain control characters' })
    .default('')
    .describe(
      `Write-only. Password of HTTP basic authentication, together with \`${username}\`; empty for none.`,
    )
    .meta({ writeOnly: true, examples: ['correct horse battery staple'] })
}

/** Refuses one of a user name and a password without the other. */
export function checkBasicPair<U extends string, P extends string>(
  settings: Readonly<Record<U | P, string>>,
  context: z.RefinementCtx,
  username: U,
  password: P,
): void {
  const refuse = (property: string, message: string): void =>
    context.addIssue({ code: 'custom', path: [property], message })
  if (settings[username] !== '' && settings[password] === '')
    refuse(password, `is required with ${username}; both empty are none`)
  if (settings[username] === '' && settings[password] !== '')
    refuse(username, `is required with ${password}; both empty are none`)
}

/** Refuses headers that the other settings set. */
export function checkHeaders<H extends string>(
  settings: Readonly<Record<H, readonly { readonly name: string }[]>>,
  context: z.RefinementCtx,
  property: H,
  reserved: readonly string[],
): void {
  for (const [index, { name }] of settings[property].entries()) {
    if (reserved.includes(name.toLowerCase())) {
      const message = 'cannot be set: the service sets it itself'
      context.addIssue({ code: 'custom', path: [property, index, 'name'], message })
    }
  }
}
