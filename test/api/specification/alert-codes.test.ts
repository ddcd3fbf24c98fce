import t from 'tap'
import { FORMATS } from '../../../actors/notifications/formats/format.ts'
import { ALERT_CODES, type AlertCode } from '../../../storage/alerts/alert.ts'
import { publishedChecks } from '../../actors/notifications/published-checks.ts'
import { startWebServer, take } from '../../actors/http/web-server.ts'
import { startApi } from '../../support/api.ts'
import { until } from '../../support/processes.ts'
import { setUpTroubledSite, STRANGER } from '../../support/troubled-site.ts'

/**
 * Specification 6.2, each alert code from what raises it to the webhooks, in each format; and 2.14 where it tells of
 * subjects. The decisions name the codes that the specification does not show.
 */

t.setTimeout(900_000)

const PUBLIC_URL = 'https://edi.example.com'

type Row = Readonly<Record<string, unknown>>

const api = await startApi(t, { publicUrl: PUBLIC_URL })
const { client } = api
const web = await startWebServer(t)
web.behave('/as2', async (request, response, received) => {
  await take(request, received)
  response.writeHead(200).end()
})
const site = await setUpTroubledSite(t, { api, partnerUrl: `${web.url}/as2` })
const CHECKS = publishedChecks((await client.get('/openapi.yaml')).text)
for (const format of FORMATS) {
  const posts = { format, min_severity: 'info' }
  const each = { name: format, url: `${web.url}/${format}`, ...posts }
  await client.create('/plugins/configs?type=notification-webhook', each)
  await start(format)
  // Is started when all has happened.
  const all = { name: `all-${format}`, url: `${web.url}/all-${format}`, group_seconds: 300, ...posts }
  await client.create('/plugins/configs?type=notification-webhook', all)
}

async function start(notifier: string): Promise<void> {
  const { status, text } = await client.post(`/services/notification-webhook/${notifier}/start`)
  if (status !== 200) throw new Error(text)
}

interface Expected {
  readonly severity: string
  readonly subject_kind: string
  readonly subject_name: string | RegExp
  /** One sentence that says what happened, to what. */
  readonly summary: string | RegExp
  /** The reason first. */
  readonly details: RegExp
  /** Of the subject's id. */
  readonly dedupe_key: (id: string) => string
  /** Below the address of the API. */
  readonly link: (id: string) => string
}

const ofMessage = (id: string): string => `/messages/${id}`

const EXPECTED: Readonly<Record<AlertCode, Expected>> = {
  plugin_failed: {
    severity: 'critical',
    subject_kind: 'plugin',
    subject_name: 'archive',
    summary: /^The plugin instance archive \(file-writer\) has failed on the node test/,
    details: /^Reason: .*\nInstance: file-writer archive\nNode: test\n/,
    dedupe_key: () => 'plugin_failed/file-writer:archive',
    link: () => '/plugins/configs/file-writer/archive',
  },
  delivery_stalled: {
    severity: 'critical',
    subject_kind: 'message',
    subject_name: 'file.bin',
    summary: 'The delivery of file.bin from acme to globex has stalled: writer does not take it',
    details: /^Reason: .+\n(.+\n)*Target: writer\n/,
    dedupe_key: () => 'delivery_stalled/writer/globex',
    link: ofMessage,
  },
  delivery_failed: {
    severity: 'critical',
    subject_kind: 'message',
    subject_name: 'file.bin',
    summary: 'The delivery of file.bin from acme to globex by poster has failed',
    details: /^Reason: .+\nTarget: poster\nAttempts: 1\n/,
    dedupe_key: () => 'delivery_failed/poster/globex',
    link: ofMessage,
  },
  message_refused: {
    severity: 'warning',
    subject_kind: 'message',
    subject_name: 'invoice.edi',
    summary: `poller has refused invoice.edi from acme to ${STRANGER}`,
    details: /^Reason: .+\nSource: poller\n/,
    dedupe_key: () => 'message_refused/poller/unknown',
    link: ofMessage,
  },
  receipt_overdue: {
    severity: 'critical',
    subject_kind: 'message',
    subject_name: 'file.bin',
    summary: 'No receipt came in time for file.bin from acme to globex, sent by sender',
    details: /^Reason: .+\nTarget: sender\n/,
    dedupe_key: () => 'receipt_overdue/sender/globex',
    link: ofMessage,
  },
  certificate_expiring: {
    severity: 'critical',
    subject_kind: 'certificate',
    subject_name: 'globex edi 2025',
    summary: /^The certificate globex edi 2025 expires in \d days? \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\)$/,
    details: /Used by:\n {2}AS2 profile of the partner globex \(partner_certificate_id\)/,
    dedupe_key: (id) => `certificate_expiring/${id}/7`,
    link: (id) => `/certificates/${id}`,
  },
  certificate_expired: {
    severity: 'critical',
    subject_kind: 'certificate',
    subject_name: 'acme edi 2025',
    summary: /^The certificate acme edi 2025 has expired \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\)$/,
    details: /Used by:\n {2}AS2 profile of the organization acme \(signing_certificate_id\)/,
    dedupe_key: (id) => `certificate_expired/${id}`,
    link: (id) => `/certificates/${id}`,
  },
  storage_failed: {
    severity: 'critical',
    subject_kind: 'storage',
    subject_name: /^the directory \//,
    summary:
      'Payloads cannot be stored: The file system is full. Nothing is taken in until they can be stored again',
    details: /^Reason: Payloads cannot be stored: The file system is full\nStorage: the directory \//,
    dedupe_key: () => 'storage_failed/payloads',
    link: () => '/settings',
  },
}

/** Every text in a body. */
function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap(textsOf)
}

/** The rows of this code, one of each notifier that runs, once each webhook has taken its post. */
async function delivered(code: AlertCode): Promise<readonly Row[]> {
  let rows: readonly Row[] = []
  await until(async () => {
    const all = (await client.get(`/notifications?code=${code}`)).data['notifications'] as Row[]
    rows = all.filter(({ instance }) => FORMATS.some((format) => format === instance))
    return rows.length >= FORMATS.length && rows.every(({ outcome }) => outcome === 'delivered')
  }).catch((error: unknown) => {
    throw new Error(`${String(error)}: ${JSON.stringify(rows)}`)
  })
  return rows
}

for (const [at, code] of ALERT_CODES.entries()) {
  t.test(`6.2 Alert codes: ${code}, from what raises it to each webhook and the log`, async (t) => {
    const { dedupe_key, link, ...expected } = EXPECTED[code]
    const id = await site.happen[code]()
    const rows = await delivered(code)
    t.equal(rows.length, FORMATS.length, 'one row per notifier')

    t.test(
      '2.14 severity, code, subject_kind, subject_id, subject_name, summary, details, dedupe_key',
      (t) => {
        for (const row of rows)
          t.match(row, { code, ...expected, subject_id: id, dedupe_key: dedupe_key(id), test: false })
        t.end()
      },
    )

    t.test('2.14 link leads to the subject', async (t) => {
      for (const row of rows) t.equal(row['link'], `${PUBLIC_URL}/api/v1${link(id)}`)
      t.equal((await client.get(link(id))).status, 200)
    })

    t.test('2.14 instance and format name the notifier; outcome, attempts, delivered_at its post', (t) => {
      t.same(
        rows.map(({ instance, format }) => `${String(instance)} ${String(format)}`).toSorted(),
        FORMATS.map((format) => `${format} ${format}`).toSorted(),
      )
      for (const row of rows) {
        t.match(row, { outcome: 'delivered', attempts: 1, last_error: null })
        t.ok(Date.parse(String(row['delivered_at'])) >= Date.parse(String(row['created_at'])))
      }
      t.end()
    })

    for (const format of FORMATS) {
      t.test(`6.2 Payload format of webhook notifications: ${format}`, (t) => {
        const posts = web.received(`/${format}`)
        t.equal(posts.length, at + 1, 'one post for each alert')
        const body = JSON.parse(String(posts[at]?.body)) as Row
        t.equal(CHECKS[format](body), null)
        const told = textsOf(body).join('\n')
        const [row] = rows
        for (const part of [row?.['summary'], row?.['link'], String(row?.['details']).split('\n')[0]])
          t.ok(told.includes(String(part)), `it tells ${String(part)}`)
        t.end()
      })
    }
  })
}

t.test(
  '6.2 Payload format of webhook notifications: all of these in one post, the worst first',
  async (t) => {
    // As if all had happened at one moment, some time ago.
    await api.database.pool.query(
      `update notification set raised_at = (select min(raised_at) from notification)`,
    )
    await api.database.pool.query(`update notification set raised_at = raised_at - interval '1 hour'`)
    const all = (await client.get('/notifications?instance=generic')).data['notifications'] as Row[]
    t.equal(all.length, ALERT_CODES.length)
    for (const format of FORMATS) {
      const path = `/all-${format}`
      await start(`all-${format}`)
      await until(() => web.received(path).length > 0)
      const [body, ...others] = web.received(path).map((post) => JSON.parse(String(post.body)) as Row)
      t.same(others, [])
      t.equal(CHECKS[format](body), null)
      const told = textsOf(body).join('\n')
      for (const { summary, link, details } of all) {
        for (const part of [summary, link, String(details).split('\n')[0]?.slice(0, 100)])
          t.ok(told.includes(String(part)), `${format} tells ${String(part)}`)
      }
      const placeOf = (row: Row): number => told.lastIndexOf(String(row['summary']))
      const [warnings, criticals] = ['warning', 'critical'].map((severity) =>
        all.filter((row) => row['severity'] === severity).map(placeOf),
      )
      t.ok(Math.min(...(warnings ?? [])) > Math.max(...(criticals ?? [])), 'the warnings come last')
      if (format === 'generic')
        t.match(body, { type: 'alert.grouped', count: all.length, severity: 'critical' })
    }
  },
)
