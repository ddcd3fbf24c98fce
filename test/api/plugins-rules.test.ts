import t from 'tap'
import { startApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'
import { NEEDED, refusedBy, testRules, URL_RULES, whole, type Rule } from './plugin-rules.ts'

/** What all types share, and the AS2 and file types: what is accepted at a bound, and what is refused beyond it. */

// On a busy machine many requests add up.
t.setTimeout(200_000)

const { client } = await startApi(t)
await client.create('/organizations', { name: 'acme' })
await client.create('/partners', { name: 'globex' })

const TARGETS = ['as2-sender', 'file-writer', 'http-poster']
const REPEATING = [...TARGETS, 'notification-webhook']

const RULES: readonly Rule[] = [
  { types: Object.keys(NEEDED), property: 'enabled', accepted: [true, false], refused: ['true', 1, null] },
  {
    types: TARGETS,
    property: 'max_concurrent_deliveries',
    ...whole(1, 100),
  },
  { types: REPEATING, property: 'retry_max_attempts', ...whole(1, 100) },
  {
    types: REPEATING,
    property: 'retry_initial_seconds',
    ...whole(1, 86_400, { retry_max_seconds: 604_800 }),
  },
  { types: REPEATING, property: 'retry_max_seconds', ...whole(1, 604_800, { retry_initial_seconds: 1 }) },
  {
    types: REPEATING,
    property: 'retry_max_seconds',
    along: { retry_initial_seconds: 60 },
    accepted: [60, 61],
    refused: [59],
  },
  { types: ['as2-sender', 'http-poster'], property: 'connect_timeout_seconds', ...whole(1, 600) },
  { types: ['as2-sender', 'http-poster'], property: 'response_timeout_seconds', ...whole(1, 3600) },

  { types: ['as2-receiver'], property: 'port', ...whole(0, 65_535) },
  {
    types: ['as2-receiver'],
    property: 'host',
    accepted: ['', '127.0.0.1', '::1', 'as2.example.com', 'localhost', '3com.example', 'a-1'],
    refused: [
      'two hosts',
      'a/b',
      'a:80',
      '[::1]',
      '127.0.0.1:80',
      '999.999.1.1',
      '1.2.3',
      '42',
      'a..b',
      '-a.example',
      'a_b',
      `${'x'.repeat(64)}.example`,
      Array.from({ length: 51 }, () => 'abcd').join('.'),
      'x'.repeat(256),
      null,
    ],
  },
  {
    types: ['as2-receiver'],
    property: 'path',
    accepted: ['/', '/as2', '/a/b%20c'],
    refused: ['', 'as2', '/a b', '/a?b', '/a#b', `/${'x'.repeat(200)}`, null],
  },
  { types: ['as2-receiver'], property: 'max_message_bytes', ...whole(1, 1024 ** 4) },
  {
    types: ['as2-receiver'],
    property: 'public_url',
    accepted: ['', ...URL_RULES.accepted],
    refused: [...URL_RULES.refused.filter((url) => url !== ''), `https://as2.example/${'x'.repeat(881)}`],
  },
  { types: ['as2-receiver'], property: 'tls_certificate_id', accepted: [null], refused: [0, 999, '1', 1.5] },
  {
    types: ['as2-receiver'],
    property: 'tls_client_certificate',
    accepted: ['none'],
    refused: ['None', true, null],
  },
  {
    types: ['as2-receiver'],
    property: 'tls_client_ca_certificate_ids',
    accepted: [[]],
    refused: [[999], ['1'], [0], 1, null, {}],
  },
  {
    types: ['as2-receiver'],
    property: 'receipt_hosts',
    accepted: [[], ['receipts.example.com', 'localhost'], ['10.0.0.0/8', '192.0.2.1', 'fd00::/8', '::1']],
    refused: [['10.0.0.0/33'], ['http://x.example/'], ['x.example:80'], ['*'], [''], [1], 'x.example', null],
  },

  {
    types: ['file-poller', 'file-writer'],
    property: 'base_directory',
    accepted: ['relative', '/srv/x', './a b'],
    refused: ['', 'x'.repeat(1001), 'a\nb', null, undefined],
  },
  {
    types: ['file-poller'],
    property: 'processed_directory',
    accepted: ['/data/done', '/data/out/done', '/data/outer'],
    refused: ['', '/data/out', '/data/out/', '/data/x/../out', '/data', '/', null, undefined],
  },
  {
    types: ['file-poller'],
    property: 'error_directory',
    accepted: ['', '/data/refused', '/data/out/refused'],
    refused: ['/data/out', '/data', null],
  },
  {
    types: ['file-poller'],
    property: 'from',
    accepted: ['acme'],
    refused: ['', 'globex', 'nobody', 'ACME', '*', null],
  },
  {
    types: ['file-poller'],
    property: 'from',
    along: { path_pattern: '{from}/{to}/{filename}' },
    accepted: ['', 'acme'],
    refused: ['nobody'],
  },
  {
    types: ['file-poller'],
    property: 'path_pattern',
    accepted: ['{to}/{filename}', '{from}/{to}/{filename}', 'x/{to}-{filename}', '{to}/in/{to}_{filename}'],
    refused: ['{filename}', '{to}', '{to}/{filename}.edi', '{id}/{to}/{filename}', '{date}/{to}/{filename}'],
  },
  {
    types: ['file-writer'],
    property: 'path_pattern',
    accepted: ['{to}/{filename}', '{from}/{date}/{id}', 'fixed/{id}.edi', '..a/{filename}'],
    refused: ['{To}/{filename}', '{TO}'],
  },
  {
    types: ['file-poller', 'file-writer'],
    property: 'path_pattern',
    accepted: [],
    refused: [
      '',
      '/{to}/{filename}',
      '../{to}/{filename}',
      '{to}/../{filename}',
      './{to}/{filename}',
      '{to}//{filename}',
      '{to}\\{filename}',
      '..\\{to}/{filename}',
      'C:/{to}/{filename}',
      'c:{to}/{filename}',
      '{who}/{to}/{filename}',
      '{}/{to}/{filename}',
      '{to/{to}/{filename}',
      'to}/{to}/{filename}',
      '{{to}}/{filename}',
      'a\nb/{to}/{filename}',
      `${'x'.repeat(500)}/{to}/{filename}`,
      null,
    ],
  },
  {
    types: ['file-poller'],
    property: 'file_pattern',
    accepted: ['*', '*.*', 'INV?????.edi', '[x].txt'],
    refused: ['', 'in/*.edi', 'in\\*.edi', 'x'.repeat(201), null],
  },
  { types: ['file-poller'], property: 'polling_interval', ...whole(1, 86_400) },
  { types: ['file-poller'], property: 'settle_seconds', ...whole(0, 3600) },
  {
    types: ['file-writer'],
    property: 'on_conflict',
    accepted: ['rename', 'overwrite', 'fail'],
    refused: ['ask', 'Rename', '', null],
  },
]

testRules(t, client, RULES)

t.test('what a type needs is required', async (t) => {
  for (const [type, needed] of Object.entries(NEEDED)) {
    const without = Object.fromEntries(Object.keys(needed).map((name) => [name, undefined]))
    t.same(
      await refusedBy(client, type, without),
      Object.keys(needed)
        .filter((name) => name !== 'from')
        .toSorted(),
      type,
    )
  }
  t.same(await refusedBy(client, 'file-poller', { from: undefined }), ['from'])
})

t.test('as2-receiver: tls_certificate_id names a stored certificate with its private key', async (t) => {
  const { certificatePem, privateKeyPem } = makeCertificate({ commonName: 'tls' })
  const upload = async (parts: Record<string, string>): Promise<unknown> => {
    const answer = await client.ask('POST', '/certificates', {
      parts: {
        description: 'x',
        ...Object.fromEntries(
          Object.entries(parts).map(([name, pem]) => [name, new Uint8Array(Buffer.from(pem))]),
        ),
      },
    })
    t.equal(answer.status, 201)
    return answer.data['id']
  }
  const keyless = await upload({ certificate: makeCertificate({ commonName: 'no key' }).certificatePem })
  const withKey = await upload({ certificate: certificatePem, private_key: privateKeyPem })
  t.same(await refusedBy(client, 'as2-receiver', { tls_certificate_id: keyless }), ['tls_certificate_id'])
  t.same(await refusedBy(client, 'as2-receiver', { tls_certificate_id: withKey }), [])

  t.same(
    await refusedBy(client, 'as2-receiver', { tls_client_certificate: 'required' }),
    ['tls_client_ca_certificate_ids', 'tls_client_certificate'],
    'client certificates belong to HTTPS, and are checked against something',
  )
  const https = { tls_certificate_id: withKey, tls_client_certificate: 'optional' }
  t.same(
    await refusedBy(client, 'as2-receiver', { ...https, tls_client_ca_certificate_ids: [keyless, 999] }),
    ['tls_client_ca_certificate_ids'],
  )
  t.same(
    await refusedBy(client, 'as2-receiver', { ...https, tls_client_ca_certificate_ids: [keyless, withKey] }),
    [],
  )
})

t.test('all that is wrong is told at once, each by its property', async (t) => {
  t.same(
    await refusedBy(client, 'http-poster', {
      name: 'X',
      url: 'x',
      method: 'GET',
      extra: 1,
      retry_max_attempts: 0,
    }),
    ['extra', 'method', 'name', 'retry_max_attempts', 'url'],
  )
  t.same(await refusedBy(client, 'file-poller', { from: 'nobody', settle_seconds: -1 }), [
    'from',
    'settle_seconds',
  ])
})
