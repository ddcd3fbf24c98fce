import { createHmac } from 'node:crypto'
import { z } from 'zod'

/** Signed posts, as Standard Webhooks 1.0.0 has them. */

const PREFIX = 'whsec_'
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/
/** Standard Webhooks, "Signature scheme": 192 to 512 bits. */
const LEAST_KEY_BYTES = 24
const MOST_KEY_BYTES = 64

export const SIGNATURE_HEADERS = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const

/** Empty, `whsec_` and the key in base64, or a text whose bytes are the key. */
export const signingSecret = z
  .string()
  .max(256)
  .superRefine((secret, context) => {
    const refusal = refusalOf(secret)
    if (refusal !== null) context.addIssue({ code: 'custom', message: refusal })
  })
  .default('')
  .describe(
    'Write-only. Signs each post by Standard Webhooks (HMAC-SHA-256, headers `webhook-id`, `webhook-timestamp` and `webhook-signature`): `whsec_` with 24 to 64 bytes in base64, or 8 to 256 other characters. Empty for none.',
  )
  .meta({ writeOnly: true, examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] })

function refusalOf(secret: string): string | null {
  if (secret === '') return null
  if (/\p{Cc}/u.test(secret)) return 'must not contain control characters'
  if (!secret.startsWith(PREFIX)) return secret.length < 8 ? 'must have at least 8 characters' : null
  const { length } = signingKey(secret)
  if (BASE64.test(secret.slice(PREFIX.length)) && length >= LEAST_KEY_BYTES && length <= MOST_KEY_BYTES)
    return null
  return `must have ${LEAST_KEY_BYTES} to ${MOST_KEY_BYTES} bytes in base64 after ${PREFIX}`
}

export function signingKey(secret: string): Buffer {
  return secret.startsWith(PREFIX)
    ? Buffer.from(secret.slice(PREFIX.length), 'base64')
    : Buffer.from(secret, 'utf8')
}

/** The value of `webhook-signature`. The body is read once and not kept. */
export async function signatureOf(signed: {
  readonly key: Buffer
  readonly id: string
  /** Seconds since 1970, as `webhook-timestamp` says it. */
  readonly timestamp: number
  readonly body: AsyncIterable<Buffer>
}): Promise<string> {
  const hmac = createHmac('sha256', signed.key).update(`${signed.id}.${signed.timestamp}.`)
  for await (const chunk of signed.body) hmac.update(chunk)
  return `v1,${hmac.digest('base64')}`
}
