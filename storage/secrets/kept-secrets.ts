import { validationFailure } from '../../runtime/errors.ts'
import type { Change } from '../../runtime/endpoint/record-rules.ts'

/**
 * A stored secret belongs to the URL it was entered for (specification, 2.1 rule 8): a change of the URL must send
 * every secret again that has a value, be it to clear it. Otherwise whoever may change the URL could have the
 * secret sent to an address of their choice. Throws a validation failure on the secrets that were left out.
 */
export function refuseSecretsOfOtherUrl<T extends object>(
  change: Change<T>,
  stored: T,
  next: T,
  properties: { readonly url: keyof T; readonly secrets: readonly (keyof T & string)[] },
): void {
  if (stored[properties.url] === next[properties.url]) return
  const missing = properties.secrets.filter((secret) => !change.sent.has(secret) && hasValue(stored[secret]))
  if (missing.length === 0) return
  const text = `must be sent again, because ${String(properties.url)} changes`
  throw validationFailure(Object.fromEntries(missing.map((secret) => [secret, text])))
}

function hasValue(secret: unknown): boolean {
  if (secret === undefined || secret === null || secret === '') return false
  return !Array.isArray(secret) || secret.length > 0
}
