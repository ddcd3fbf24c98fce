import fc from 'fast-check'
import t from 'tap'
import { startApi } from '../support/api.ts'

/** Whatever the rules of a type allow is accepted, read back, sent back unchanged, and deleted. */

// On a busy machine many requests add up.
t.setTimeout(200_000)

const { client, records } = await startApi(t)
await client.create('/organizations', { name: 'acme' })

const characters = (text: string) => fc.constantFrom(...text.split(''))
const name = fc.string({ unit: characters('abcxyz0189_-'), minLength: 1, maxLength: 64 })
const step = fc
  .string({ unit: characters('abc XYZ.-_üé0'), minLength: 1, maxLength: 20 })
  .map((text) => `d${text}`)
const directory = fc.array(step, { minLength: 1, maxLength: 4 }).map((steps) => `/${steps.join('/')}`)
const whole = (min: number, max: number) => fc.integer({ min, max })
const oneOf = (...values: readonly string[]) => fc.constantFrom(...values)
const address = fc.webUrl({ withFragments: false, withQueryParameters: true }).filter(
  // fast-check may hit upon the name of a credential.
  (url) => !/token|key|secret|passw|pwd|auth|sig/i.test(decodeURIComponent(new URL(url).search)),
)
const text = fc
  .string({ unit: 'grapheme', maxLength: 60 })
  .filter((value) => !/\p{Cc}/u.test(value) && value.isWellFormed())

const retry = fc
  .tuple(whole(1, 86_400), whole(1, 86_400))
  .map(([a, b]) => ({ retry_initial_seconds: Math.min(a, b), retry_max_seconds: Math.max(a, b) }))
const attempts = fc.record({ retry_max_attempts: whole(1, 100) }, { requiredKeys: [] })
const concurrency = fc.record({ max_concurrent_deliveries: whole(1, 100) }, { requiredKeys: [] })
const timeouts = fc.record(
  { connect_timeout_seconds: whole(1, 600), response_timeout_seconds: whole(1, 3600) },
  { requiredKeys: [] },
)
const headers = fc.array(
  fc.record({
    name: fc
      .string({ unit: characters('abcXYZ019-_'), minLength: 1, maxLength: 30 })
      .map((each) => `X-${each}`),
    value: fc.string({ unit: characters('abc XYZ:;,"=\t'), maxLength: 60 }),
  }),
  { maxLength: 5 },
)
const signing_secret = fc.oneof(
  fc.constant(''),
  text.filter((value) => value.length >= 8 && !value.startsWith('whsec_')),
  fc
    .uint8Array({ minLength: 24, maxLength: 64 })
    .map((key) => `whsec_${Buffer.from(key).toString('base64')}`),
)
const credential = fc.oneof(
  fc.constant({ username: '', password: '' }),
  fc.record({
    username: text.filter((value) => value !== '' && !value.includes(':')),
    password: text.filter((value) => value !== ''),
  }),
)

/** One object of the parts of several. */
const together = (...parts: readonly fc.Arbitrary<object>[]): fc.Arbitrary<Record<string, unknown>> =>
  fc.tuple(...parts).map((values) => Object.assign({}, ...values) as Record<string, unknown>)

interface Type {
  readonly settings: fc.Arbitrary<Record<string, unknown>>
  readonly secrets: readonly string[]
}

const TYPES: Readonly<Record<string, Type>> = {
  'as2-receiver': {
    secrets: [],
    settings: fc.record(
      {
        host: oneOf('', '127.0.0.1', '::1', 'as2.example.com'),
        port: whole(0, 65_535),
        path: fc.webPath().map((path) => `/${path.replace(/^\//, '')}`.slice(0, 200)),
        max_message_bytes: whole(1, 1024 ** 4),
        public_url: fc.oneof(fc.constant(''), address),
        receipt_hosts: fc.array(oneOf('as2.example.com', '10.0.0.0/8', 'fd00::/8', '192.0.2.1'), {
          maxLength: 5,
        }),
        tls_certificate_id: fc.constant(null),
        tls_client_certificate: fc.constant('none'),
        tls_client_ca_certificate_ids: fc.constant([]),
      },
      { requiredKeys: [] },
    ),
  },
  'as2-sender': { secrets: [], settings: together(concurrency, timeouts, attempts, retry) },
  'file-poller': {
    secrets: [],
    settings: together(
      directory.map((base) => ({
        base_directory: `/base${base}`,
        processed_directory: `/done${base}`,
        from: 'acme',
      })),
      fc.record(
        {
          error_directory: fc.oneof(
            fc.constant(''),
            directory.map((path) => `/refused${path}`),
          ),
          path_pattern: oneOf('{to}/{filename}', '{from}/{to}/x y/{filename}', '{to}-{filename}'),
          file_pattern: fc.string({ unit: characters('abc*?.[]() '), minLength: 1, maxLength: 40 }),
          polling_interval: whole(1, 86_400),
          settle_seconds: whole(0, 3600),
        },
        { requiredKeys: [] },
      ),
    ),
  },
  'file-writer': {
    secrets: [],
    settings: together(
      directory.map((base_directory) => ({ base_directory })),
      concurrency,
      attempts,
      retry,
      fc.record(
        {
          path_pattern: fc
            .array(
              fc.oneof(oneOf('{from}', '{to}', '{filename}', '{id}', '{date}', '{id}-{filename}'), step),
              {
                minLength: 1,
                maxLength: 5,
              },
            )
            .map((steps) => steps.join('/')),
          on_conflict: oneOf('rename', 'overwrite', 'fail'),
        },
        { requiredKeys: [] },
      ),
    ),
  },
  'http-poster': {
    secrets: ['http_basic_password', 'http_headers', 'signing_secret'],
    settings: together(
      address.map((url) => ({ url })),
      credential.map(({ username, password }) => ({
        http_basic_username: username,
        http_basic_password: password,
      })),
      concurrency,
      timeouts,
      attempts,
      retry,
      fc.record(
        {
          method: oneOf('POST', 'PUT'),
          http_headers: headers,
          signing_secret,
          content_type: oneOf('', 'text/plain', 'application/xml; charset=utf-8'),
        },
        { requiredKeys: [] },
      ),
    ),
  },
  'notification-webhook': {
    secrets: ['url', 'basic_password', 'headers', 'signing_secret'],
    settings: together(
      address.map((url) => ({ url })),
      credential.map(({ username, password }) => ({ basic_username: username, basic_password: password })),
      attempts,
      retry,
      fc.record(
        {
          format: oneOf('generic', 'slack', 'teams'),
          headers,
          signing_secret,
          min_severity: oneOf('info', 'warning', 'critical'),
          codes: fc.subarray(['plugin_failed', 'delivery_stalled', 'message_refused', 'storage_failed']),
          cooldown_minutes: whole(0, 10_080),
          group_seconds: whole(0, 3600),
        },
        { requiredKeys: [] },
      ),
    ),
  },
}

for (const [type, { settings, secrets }] of Object.entries(TYPES)) {
  t.test(type, async (t) => {
    await fc.assert(
      fc.asyncProperty(name, fc.boolean(), settings, async (instance, enabled, given) => {
        const path = `/plugins/configs/${type}/${instance}`
        const shown = Object.fromEntries(Object.entries(given).filter(([each]) => !secrets.includes(each)))
        const body = { name: instance, enabled, ...given }

        const created = await client.post(`/plugins/configs?type=${type}`, body)
        t.equal(created.status, 201, created.text)
        t.match(created.data, { type, name: instance, enabled })
        for (const [property, value] of Object.entries(shown)) t.same(created.data[property], value, property)
        for (const property of secrets) t.notOk(property in created.data, property)
        t.same((await client.get(path)).data, created.data)

        const saved = await client.put(path, created.data)
        t.equal(saved.status, 200, saved.text)
        t.same(saved.data, { ...created.data, updated_at: saved.data['updated_at'] })
        if (enabled) {
          const opened = await records.plugins.instance(type, instance)
          for (const [property, value] of Object.entries(given))
            t.same(opened?.settings[property], value, property)
        }
        t.equal((await client.delete(path)).status, 204)
        t.equal((await client.get(path)).status, 404)
      }),
      { numRuns: 20 },
    )
  })
}
