import { signatureOf, signingKey } from './signature.ts'

export type Header = readonly [string, string]

/** What the settings and the service say in each request. */
export function requestHeaders(request: {
  /** Of the settings; a User-Agent among them replaces ours. */
  readonly configured: readonly { readonly name: string; readonly value: string }[]
  readonly basicUsername: string
  readonly basicPassword: string
  /** The User-Agent. */
  readonly product: string
  readonly contentType: string
}): Header[] {
  const { configured, basicUsername, basicPassword, product, contentType } = request
  const headers: Header[] = configured.map(({ name, value }) => [name, value])
  if (!headers.some(([name]) => name.toLowerCase() === 'user-agent')) headers.push(['User-Agent', product])
  headers.push(['Content-Type', contentType])
  if (basicUsername !== '') {
    const credential = Buffer.from(`${basicUsername}:${basicPassword}`).toString('base64')
    headers.push(['Authorization', `Basic ${credential}`])
  }
  return headers
}

/**
 * The headers of Standard Webhooks. The signature is a header and so comes before the body: `body` is asked for only
 * when there is a secret, and read once.
 *
 * @param webhook its `id` is the same for every repeat, by which the receiver knows it.
 */
export async function webhookHeaders(webhook: {
  readonly id: string
  readonly now: Date
  /** Empty: not signed. */
  readonly signingSecret: string
  readonly body: () => Promise<AsyncIterable<Buffer>>
}): Promise<Header[]> {
  const { id, now, signingSecret, body } = webhook
  const timestamp = Math.floor(now.getTime() / 1000)
  const headers: Header[] = [
    ['webhook-id', id],
    ['webhook-timestamp', String(timestamp)],
  ]
  if (signingSecret !== '') {
    const key = signingKey(signingSecret)
    headers.push(['webhook-signature', await signatureOf({ key, id, timestamp, body: await body() })])
  }
  return headers
}
