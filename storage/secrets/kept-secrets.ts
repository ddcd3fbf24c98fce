import type { Change } from '../../runtime/endpoint/record-rules.ts'

/**
 * A stored secret belongs to the URL it was entered for (specification, 2.1 rule 8): a change of the URL must send
 * every secret again that has a value, be it to clear it. Otherwise whoever may change the URL could have the
 * secret sent to an address of their choice. Answers the secrets that were left out, each with its refusal; the URL
 * may not be checked yet, so that they are told with all else that is wrong.
 */
export function refusalsOfKeptSecrets<T extends object>(
  change: Change<T>,
  stored: T,
  { url, secrets }: { readonly url: keyof T & string; readonly secrets: readonly (keyof T & string)[] },
): Record<string, string> {
  if (!change.sent.has(url) || change.unchecked[url] === stored[url]) return {}
  const missing = secrets.filter((secret) => !change.sent.has(secret) && hasValue(stored[secret]))
  return Object.fromEntries(missing.map((secret) => [secret, `must be sent again, because ${url} changes`]))
}

/** An empty text or list is no secret. */
export function hasValue(secret: unknown): boolean {
  if (secret === undefined || secret === null || secret === '') return false
  return !Array.isArray(secret) || secret.length > 0
}
