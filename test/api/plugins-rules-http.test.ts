import t from 'tap'
import { startApi } from '../support/api.ts'
import { testRules, URL_RULES, whole, type Rule } from './plugin-rules.ts'

/** The types that send to a URL: what is accepted at a bound, and what is refused beyond it. */

// On a busy machine many requests add up.
t.setTimeout(200_000)

const { client } = await startApi(t)

const HEADER_RULES = {
  accepted: [
    [],
    [{ name: "X-!#$%&'*+.^`|~", value: '' }],
    [{ name: 'X-A', value: 'tab\tand "text"' }],
    Array.from({ length: 50 }, (_, index) => ({ name: `X-${index}`, value: 'x' })),
    [
      { name: 'A', value: 'x'.repeat(4000) },
      { name: 'B', value: 'x'.repeat(3998) },
    ],
    [{ name: 'Authorization', value: 'Bearer x' }],
  ],
  refused: [
    [{ name: '', value: 'x' }],
    [{ name: 'with space', value: 'x' }],
    [{ name: 'X:', value: 'x' }],
    [{ name: 'X-ü', value: 'x' }],
    [{ name: 'X-A', value: 'line\r\nX-B: end' }],
    [{ name: 'X-A', value: 'ü' }],
    [{ name: 'X-A' }],
    [{ name: 'X-A', value: 'x', more: 1 }],
    [{ name: 'X'.repeat(101), value: 'x' }],
    [{ name: 'X-A', value: 'x'.repeat(4001) }],
    Array.from({ length: 51 }, (_, index) => ({ name: `X-${index}`, value: 'x' })),
    [
      { name: 'A', value: 'x'.repeat(4000) },
      { name: 'B', value: 'x'.repeat(3999) },
    ],
    ...[
      'Host',
      'Content-Length',
      'content-type',
      'Transfer-Encoding',
      'Connection',
      'Keep-Alive',
      'Proxy-Connection',
      'Proxy-Authorization',
      'TE',
      'Trailer',
      'UPGRADE',
      'Expect',
      'Webhook-Id',
      'webhook-signature',
      'webhook-timestamp',
    ].map((name) => [{ name, value: 'x' }]),
    { 'X-A': 'x' },
    'X-A: x',
    null,
  ],
}

const SECRET_RULES = {
  accepted: ['', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'an agreed text'],
  refused: [
    'short',
    'whsec_AAAA',
    'whsec_this is no base64 at all',
    'x'.repeat(257),
    'with\nline end',
    5,
    null,
  ],
}

const RULES: readonly Rule[] = [
  { types: ['http-poster', 'notification-webhook'], property: 'url', ...URL_RULES },
  // An address of Teams carries its credential, and no answer ever shows it.
  {
    types: ['notification-webhook'],
    property: 'url',
    along: { format: 'teams' },
    accepted: ['https://prod-1.example.com/workflows/x?api-version=1&sp=%2Ftriggers&sv=1.0&sig=x'],
    refused: [
      'https://example.com/?SIG=x',
      'https://example.com/?sig=x&token=x',
      'https://example.com/?sig[]=x',
    ],
  },
  {
    types: ['notification-webhook'],
    property: 'url',
    along: { format: 'slack' },
    accepted: ['https://hooks.example.com/services/T0/B0/x'],
    refused: ['https://hooks.example.com/services/T0/B0/x?sig=x'],
  },
  {
    types: ['http-poster'],
    property: 'method',
    accepted: ['POST', 'PUT'],
    refused: ['post', 'GET', 'DELETE', '', null],
  },
  {
    types: ['http-poster'],
    property: 'content_type',
    accepted: ['', 'text/plain', 'application/xml; charset=utf-8', 'application/vnd.x+json'],
    refused: ['text', 'text/', 'text/plain\r\nX: y', 'text/plain; name=ü', `text/${'x'.repeat(500)}`, null],
  },
  { types: ['http-poster'], property: 'http_headers', ...HEADER_RULES },
  { types: ['notification-webhook'], property: 'headers', ...HEADER_RULES },
  {
    types: ['http-poster'],
    property: 'http_headers',
    along: { http_basic_username: 'waybill', http_basic_password: 'secret' },
    accepted: [[{ name: 'X-A', value: 'x' }]],
    refused: [[{ name: 'authorization', value: 'x' }]],
  },
  { types: ['http-poster', 'notification-webhook'], property: 'signing_secret', ...SECRET_RULES },
  {
    types: ['http-poster'],
    property: 'http_basic_username',
    along: { http_basic_password: 'secret' },
    accepted: ['waybill', 'ü'],
    refused: ['', 'a:b', 'a\nb', 'x'.repeat(201), null],
  },
  {
    types: ['http-poster'],
    property: 'http_basic_password',
    along: { http_basic_username: 'waybill' },
    accepted: ['a:b ü'],
    refused: ['', 'a\nb', 'x'.repeat(501), null],
  },
  {
    types: ['notification-webhook'],
    property: 'basic_username',
    along: { basic_password: 'secret' },
    accepted: ['waybill'],
    refused: ['', 'a:b'],
  },
  {
    types: ['notification-webhook'],
    property: 'basic_password',
    along: { basic_username: 'waybill' },
    accepted: ['secret'],
    refused: [''],
  },
  {
    types: ['notification-webhook'],
    property: 'format',
    accepted: ['generic', 'slack', 'teams'],
    refused: ['email', 'Slack', '', null],
  },
  {
    types: ['notification-webhook'],
    property: 'min_severity',
    accepted: ['info', 'warning', 'critical'],
    refused: ['error', 'Warning', '', null],
  },
  {
    types: ['notification-webhook'],
    property: 'codes',
    accepted: [
      [],
      [
        'plugin_failed',
        'delivery_stalled',
        'delivery_failed',
        'message_refused',
        'receipt_overdue',
        'certificate_expiring',
        'certificate_expired',
        'storage_failed',
      ],
    ],
    refused: [['unknown'], ['plugin_failed', 'plugin_failed'], 'plugin_failed', [null], null],
  },
  { types: ['notification-webhook'], property: 'cooldown_minutes', ...whole(0, 10_080) },
  { types: ['notification-webhook'], property: 'group_seconds', ...whole(0, 3600) },
]

testRules(t, client, RULES)
