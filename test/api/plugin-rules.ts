import type { Test } from 'tap'
import type { ApiClient } from '../support/client.ts'

/** The rules of a plugin type's settings, held by what the API accepts and refuses. */

const DIRECTORIES = { base_directory: '/data/out', processed_directory: '/data/done', from: 'acme' }
/** What a type needs at least. */
export const NEEDED: Readonly<Record<string, object>> = {
  'as2-receiver': {},
  'as2-sender': {},
  'file-poller': DIRECTORIES,
  'file-writer': { base_directory: '/data/in' },
  'http-poster': { url: 'https://example.com/in' },
  'notification-webhook': { url: 'https://example.com/hook' },
}

/** The properties that a creation is refused for; none when it is accepted, and it is deleted then. */
export async function refusedBy(client: ApiClient, type: string, body: object): Promise<string[]> {
  const { status, error } = await client.post(`/plugins/configs?type=${type}`, {
    name: 'x',
    ...NEEDED[type],
    ...body,
  })
  if (status === 201) {
    await client.delete(`/plugins/configs/${type}/x`)
    return []
  }
  if (error?.code !== 'INVALID_INPUT' || error.message !== 'Validation failed')
    throw new Error(`${type} is answered with ${status} ${JSON.stringify(error)}`)
  return Object.keys(error.details ?? {}).toSorted()
}

export interface Rule {
  readonly types: readonly string[]
  readonly property: string
  readonly accepted: readonly unknown[]
  readonly refused: readonly unknown[]
  /** Sent with each value. */
  readonly along?: object
}

/** A whole number within bounds. */
export const whole = (least: number, most: number, along: object = {}) => ({
  accepted: [least, most],
  refused: [least - 1, most + 1, least + 0.5, String(least), null, true],
  along,
})

export const URL_RULES = {
  accepted: [
    'http://localhost:8080',
    'https://example.com/a?partner=5',
    'https://[::1]/',
    'http://10.0.0.1/in',
  ],
  refused: [
    '',
    'example.com',
    'ftp://example.com/',
    'https://user@example.com/',
    'https://user:pass@example.com/',
    'https://:pass@example.com/',
    'https://example.com/#part',
    'https://exa mple.com/',
    `https://example.com/${'x'.repeat(2000)}`,
    ...[
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
    ].flatMap((name) => [
      `https://example.com/?${name}=x`,
      `https://example.com/?a=1&${name.toUpperCase()}=x`,
      `https://example.com/?${name.replace(/^./, (first) => `%${first.charCodeAt(0).toString(16)}`)}=x`,
    ]),
    5,
    null,
  ],
}

/** One test a rule and type. */
export function testRules(t: Test, client: ApiClient, rules: readonly Rule[]): void {
  for (const { types, property, accepted, refused, along = {} } of rules) {
    for (const type of types) {
      t.test(`${type}: ${property}`, async (t) => {
        for (const value of accepted) {
          t.same(
            await refusedBy(client, type, { ...along, [property]: value }),
            [],
            `${JSON.stringify(value)} is accepted`,
          )
        }
        for (const value of refused) {
          const body = { ...along, [property]: value }
          t.same(await refusedBy(client, type, body), [property], `${JSON.stringify(value)} is refused`)
        }
      })
    }
  }
}
