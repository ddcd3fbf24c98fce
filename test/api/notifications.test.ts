import t from 'tap'
import { raisePluginFailed } from '../../storage/alerts/raise-plugin-failed.ts'
import { answering, startWebServer, take } from '../actors/http/web-server.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { raiseAlert } from '../support/alerts.ts'
import { until } from '../support/processes.ts'

/**
 * Specification 2.14 and the row GET /notifications of 4.2 and 4.3, over HTTP. No notifier runs but one: what is listed
 * waits. The alerts of every code and subject are in specification/alert-codes.test.ts.
 */

t.setTimeout(600_000)

type Row = Readonly<Record<string, unknown>>

const FIELDS = [
  'alert_id',
  'alert_time',
  'attempts',
  'code',
  'created_at',
  'dedupe_key',
  'delivered_at',
  'details',
  'format',
  'id',
  'instance',
  'last_error',
  'link',
  'outcome',
  'severity',
  'subject_id',
  'subject_kind',
  'subject_name',
  'summary',
  'test',
]

const HOOK = 'https://hooks.example.com/hunter2'

/** A notifier that is saved and never started. */
async function notifier(api: TestApi, name: string, settings: object = {}): Promise<void> {
  await api.client.create('/plugins/configs?type=notification-webhook', { name, url: HOOK, ...settings })
}

async function listed(api: TestApi, filter = ''): Promise<Row[]> {
  const { status, data, text } = await api.client.get(`/notifications?limit=500&${filter}`)
  if (status !== 200) throw new Error(text)
  return data['notifications'] as Row[]
}

/** The names of what failed, in the order of the list. */
async function names(api: TestApi, filter = ''): Promise<string> {
  return (await listed(api, filter)).map((row) => String(row['subject_name'])).join('')
}

/** A plugin instance that failed then. */
async function failed(api: TestApi, name: string, at: string): Promise<void> {
  const { pool } = api.database
  await raisePluginFailed(pool, {
    type: 'file-writer',
    name,
    node: 'test',
    reason: 'x',
    retries: false,
    at: new Date(at),
  })
}

t.test('2.14 Notification log row', async (t) => {
  const api = await startApi(t, { publicUrl: 'https://waybill.example.com/' })
  const reason = 'The directory /srv/out is not there'
  await notifier(api, 'operators')
  await notifier(api, 'chat', { format: 'slack' })
  await raisePluginFailed(api.database.pool, {
    type: 'file-writer',
    name: 'archive',
    node: 'node-7',
    reason,
    retries: false,
    at: new Date('2026-03-02T09:30:00.250Z'),
  })
  const rows = await listed(api)

  t.test('2.14 fields: id, alert_id, alert_time and the others, and none beside them', async (t) => {
    t.equal(rows.length, 2)
    for (const row of rows) t.same(Object.keys(row).toSorted(), FIELDS)
  })

  t.test('2.14 One row exists per alert and notifier', async (t) => {
    const [one, other] = rows
    t.equal(one?.['alert_id'], other?.['alert_id'])
    t.not(one?.['id'], other?.['id'])
    t.same(rows.map(({ instance }) => String(instance)).toSorted(), ['chat', 'operators'])
  })

  t.test('2.14 alert_time, severity, code, subject_kind, subject_id, subject_name', async (t) => {
    for (const row of rows) {
      t.match(row, {
        alert_time: '2026-03-02T09:30:00.250Z',
        severity: 'critical',
        code: 'plugin_failed',
        subject_kind: 'plugin',
        subject_id: 'file-writer:archive',
        subject_name: 'archive',
      })
    }
  })

  t.test('2.14 dedupe_key names the code and what repeats', async (t) => {
    for (const row of rows) t.equal(row['dedupe_key'], 'plugin_failed/file-writer:archive')
  })

  t.test('2.14 instance is the name of the notifier, format what it posts', async (t) => {
    t.same(rows.map(({ instance, format }) => `${String(instance)} ${String(format)}`).toSorted(), [
      'chat slack',
      'operators generic',
    ])
  })

  t.test('2.14 test is true for a test notification alone', async (t) => {
    for (const row of rows) t.equal(row['test'], false)
    const { data } = await api.client.post('/plugins/configs/notification-webhook/chat/test')
    t.match(data, { test: true, code: 'test', severity: 'info', subject_id: 'notification-webhook:chat' })
    t.same(Object.keys(data).toSorted(), FIELDS)
  })

  t.test(
    '2.14 summary is one sentence that names the subject; details have the reason and the node',
    async (t) => {
      const { summary, details } = rows[0] as { summary: string; details: string }
      t.match(summary, /archive/)
      t.ok(summary.length <= 200)
      t.notMatch(summary, /\n/)
      t.match(details, reason)
      t.match(details, 'node-7')
    },
  )

  t.test('2.14 link leads to the subject below PUBLIC_URL', async (t) => {
    const { link } = rows[0] as { link: string }
    t.equal(link, 'https://waybill.example.com/api/v1/plugins/configs/file-writer/archive')
    await api.client.create('/plugins/configs?type=file-writer', { name: 'archive', base_directory: 'out' })
    t.equal((await api.client.get(new URL(link).pathname.replace('/api/v1', ''))).status, 200)
  })

  t.test('2.14 outcome, attempts, last_error, created_at, delivered_at of a row that waits', async (t) => {
    for (const row of rows) {
      t.match(row, { outcome: 'queued', attempts: 0, last_error: null, delivered_at: null })
      const age = Date.now() - Date.parse(String(row['created_at']))
      t.ok(age > -60_000 && age < 600_000, 'created_at is now, whenever the alert was')
    }
  })

  t.test('2.1 rule 8: no answer has the URL of a webhook', async (t) => {
    t.notMatch((await api.client.get('/notifications')).text, /hunter2|hooks\.example/)
  })
})

t.test('2.14 outcome, attempts, last_error, delivered_at of a row that was posted', async (t) => {
  const api = await startApi(t)
  const web = await startWebServer(t)
  const settings = { url: `${web.url}/hook`, retry_initial_seconds: 1, retry_max_seconds: 1 }
  await notifier(api, 'operators', settings)
  t.equal((await api.client.post('/services/notification-webhook/operators/start')).status, 200)
  const settled = async (subjectName: string): Promise<Row | undefined> => {
    await raiseAlert(api.database.pool, { code: 'delivery_failed', severity: 'critical', subjectName })
    let row: Row | undefined
    await until(async () => {
      row = (await listed(api)).find((each) => each['subject_name'] === subjectName)
      return row !== undefined && row['outcome'] !== 'queued'
    })
    return row
  }
  web.behave('/hook', answering(404))
  const refused = { outcome: 'failed', attempts: 1, delivered_at: null, last_error: /404 Not Found/ }
  t.match(await settled('a'), refused)
  web.behave('/hook', async (request, response, received) => {
    await take(request, received)
    response.writeHead(received.length < 3 ? 503 : 200).end()
  })
  const row = await settled('b')
  t.match(row, { outcome: 'delivered', attempts: 2, last_error: null })
  const [madeAt, deliveredAt] = [String(row?.['created_at']), String(row?.['delivered_at'])]
  t.ok(Date.parse(deliveredAt) > Date.parse(madeAt), `made ${madeAt}, delivered ${deliveredAt}`)
})

t.test('2.14 newest alert first: by alert_time, whenever it was raised', async (t) => {
  const api = await startApi(t)
  await notifier(api, 'operators')
  await failed(api, 'b', '2026-03-02T10:00:00Z')
  await failed(api, 'd', '2026-03-02T12:00:00Z')
  await failed(api, 'a', '2026-03-02T09:00:00Z')
  await failed(api, 'c', '2026-03-02T11:00:00Z')
  t.equal(await names(api), 'dcba')
})

t.test('2.14 alerts of the same time: the row with the larger id first', async (t) => {
  const api = await startApi(t)
  for (const name of ['one', 'two', 'three']) await notifier(api, name)
  for (const name of ['a', 'b', 'c']) await failed(api, name, '2026-03-02T10:00:00Z')
  const ids = (await listed(api)).map(({ id }) => Number(id))
  t.equal(ids.length, 9)
  t.same(
    ids,
    ids.toSorted((one, other) => other - one),
  )
})

t.test(
  'a notifier gets rows while it is enabled, started or not; its filters leave others out',
  async (t) => {
    const api = await startApi(t)
    await notifier(api, 'disabled', { enabled: false })
    await notifier(api, 'all', { min_severity: 'info' })
    await notifier(api, 'usual')
    await notifier(api, 'critical', { min_severity: 'critical' })
    await notifier(api, 'refusals', { codes: ['message_refused', 'storage_failed'] })
    await raiseAlert(api.database.pool, { code: 'message_refused', severity: 'warning' })
    await raiseAlert(api.database.pool, { code: 'delivery_failed', severity: 'critical' })
    const of = async (code: string) =>
      (await listed(api, `code=${code}`)).map(({ instance }) => String(instance)).toSorted()
    t.same(await of('message_refused'), ['all', 'refusals', 'usual'])
    t.same(await of('delivery_failed'), ['all', 'critical', 'usual'])
  },
)

t.test('a row stays when its notifier is disabled, changed or deleted, and says what it was', async (t) => {
  const api = await startApi(t)
  await notifier(api, 'operators', { format: 'teams' })
  await failed(api, 'a', '2026-03-02T10:00:00Z')
  const path = '/plugins/configs/notification-webhook/operators'
  t.equal((await api.client.put(path, { format: 'slack', enabled: false })).status, 200)
  t.match(await listed(api), [{ instance: 'operators', format: 'teams' }])
  t.equal((await api.client.delete(path)).status, 204)
  t.match(await listed(api), [{ instance: 'operators', format: 'teams' }])
})

t.test('4.2 GET /notifications: limit and offset, 50 on a page', async (t) => {
  const api = await startApi(t)
  await notifier(api, 'operators')
  for (let at = 1; at <= 60; at += 1) {
    const time = new Date(Date.UTC(2026, 2, 2, 9, at)).toISOString()
    await failed(api, `failed-${at}`, time)
  }
  const page = async (query: string) => {
    const { data } = await api.client.get(`/notifications${query}`)
    const { notifications, total, limit, offset } = data as Row & { notifications: Row[] }
    return { names: notifications.map((row) => row['subject_name']), total, limit, offset }
  }
  t.same(await page(''), {
    names: Array.from({ length: 50 }, (_, at) => `failed-${60 - at}`),
    total: 60,
    limit: 50,
    offset: 0,
  })
  t.same(await page('?offset=58&limit=9'), {
    names: ['failed-2', 'failed-1'],
    total: 60,
    limit: 9,
    offset: 58,
  })
  t.same(await page('?offset=60'), { names: [], total: 60, limit: 50, offset: 60 })
  t.match(await page('?offset=59&code=plugin_failed'), { names: ['failed-1'], total: 60 })
})

t.test('4.2 GET /notifications: severity, code, instance, outcome', async (t) => {
  const api = await startApi(t)
  const { pool } = api.database
  await notifier(api, 'one', { min_severity: 'info' })
  await notifier(api, 'two', { codes: ['message_refused'] })
  await raiseAlert(pool, { code: 'message_refused', severity: 'warning', subjectName: 'a' })
  await raiseAlert(pool, { code: 'delivery_failed', severity: 'critical', subjectName: 'b' })
  await raiseAlert(pool, { code: 'plugin_failed', severity: 'critical', subjectName: 'c' })
  await pool.query(
    `update notification set outcome = 'failed', last_error = 'x', attempts = 1
     where instance = 'one' and alert_id = (select id from alert where subject_name = 'b')`,
  )
  t.equal(await names(api), 'cbaa')
  t.equal(await names(api, 'severity=critical'), 'cb')
  t.equal(await names(api, 'severity=warning'), 'aa')
  t.equal(await names(api, 'severity=info'), '')
  t.equal(await names(api, 'code=plugin_failed'), 'c')
  t.equal(await names(api, 'code=message_refused'), 'aa')
  t.equal(await names(api, 'code=certificate_expired'), '')
  t.equal(await names(api, 'code=no_such_code'), '', 'a code that there is not finds nothing')
  t.equal(await names(api, 'instance=one'), 'cba')
  t.equal(await names(api, 'instance=two'), 'a')
  t.equal(await names(api, 'instance=nobody'), '', 'a notifier that there is not has no rows')
  t.equal(await names(api, 'instance=ONE'), '')
  t.equal(await names(api, 'outcome=failed'), 'b')
  t.equal(await names(api, 'outcome=queued'), 'caa')
  for (const outcome of ['delivered', 'suppressed_cooldown', 'grouped'])
    t.equal(await names(api, `outcome=${outcome}`), '')
  t.equal(
    await names(api, 'severity=critical&instance=one&outcome=queued&code=plugin_failed'),
    'c',
    'combined',
  )
  t.equal(await names(api, 'severity=warning&code=plugin_failed'), '')
  const total = await api.client.get('/notifications?instance=one&limit=1')
  t.match(total.data, { total: 3, limit: 1 })
})

t.test(
  '4.2 GET /notifications: from is inclusive, to exclusive; a date as to includes its whole day',
  async (t) => {
    const api = await startApi(t)
    await notifier(api, 'operators')
    await failed(api, 'a', '2026-03-01T23:59:59.999Z')
    await failed(api, 'b', '2026-03-02T00:00:00Z')
    await failed(api, 'c', '2026-03-02T12:00:00Z')
    await failed(api, 'd', '2026-03-02T23:59:59.999Z')
    await failed(api, 'e', '2026-03-03T00:00:00Z')
    for (const [filter, found] of [
      ['from=2026-03-02', 'edcb'],
      ['to=2026-03-02', 'dcba'],
      ['from=2026-03-02&to=2026-03-02', 'dcb'],
      ['from=2026-03-02T12:00:00Z', 'edc'],
      ['from=2026-03-02T12:00:00.001Z', 'ed'],
      ['to=2026-03-02T12:00:00Z', 'ba'],
      ['to=2026-03-02T12:00:00.001Z', 'cba'],
      ['to=2026-03-03T00:00:00Z', 'dcba'],
      ['from=2026-03-02T14:00:00%2B02:00&to=2026-03-02T19:00:01-05:00', 'edc'],
      ['from=2026-03-04', ''],
      ['to=2026-02-28', ''],
      ['from=2026-03-03&to=2026-03-02', ''],
      ['from=0001-01-01&to=9999-12-31', 'edcba'],
    ] as const) {
      t.equal(await names(api, filter), found, filter)
    }
  },
)

t.test('4.2 GET /notifications: include_tests (test notifications are left out unless true)', async (t) => {
  const api = await startApi(t)
  await notifier(api, 'operators')
  await failed(api, 'a', '2026-03-02T09:00:00Z')
  const test = await api.client.post('/plugins/configs/notification-webhook/operators/test')
  t.match(test, { status: 200, data: { test: true } })
  const tests = async (filter: string) => (await listed(api, filter)).map((row) => row['test'])
  t.same(await tests(''), [false])
  t.same(await tests('include_tests=false'), [false])
  t.same(await tests('include_tests=true'), [true, false])
  t.same(await tests('include_tests=true&code=test'), [true])
  t.same(await tests('code=test'), [])
  t.match((await api.client.get('/notifications')).data, { total: 1 })
  t.match((await api.client.get('/notifications?include_tests=true')).data, { total: 2 })
})

t.test('4.2 GET /notifications: every value that the row names is a filter, any other is 400', async (t) => {
  const { client } = await startApi(t)
  for (const [name, values] of [
    ['severity', ['info', 'warning', 'critical']],
    ['outcome', ['queued', 'delivered', 'failed', 'suppressed_cooldown', 'grouped']],
    ['include_tests', ['true', 'false']],
  ] as const) {
    for (const value of values)
      t.equal((await client.get(`/notifications?${name}=${value}`)).status, 200, `${name}=${value}`)
  }
  const times = ['', 'yesterday', '2026-02-30', '2026-3-2', '1767225600', '2026-03-02T09:30:00', '20260302']
  for (const [name, values] of [
    ['severity', ['', 'Critical', 'error', 'warning,critical']],
    ['outcome', ['', 'Queued', 'sent', 'suppressed']],
    ['include_tests', ['', 'TRUE', '1', 'yes', 'null']],
    ['code', ['']],
    ['instance', ['']],
    ['from', times],
    ['to', times],
  ] as const) {
    for (const value of values) {
      const { status, error } = await client.get(`/notifications?${name}=${value}`)
      t.match({ status, code: error?.code }, { status: 400, code: 'INVALID_INPUT' }, `${name}=${value}`)
      t.same(Object.keys(error?.details ?? {}), [name], `${name}=${value}`)
    }
  }
})

t.test('4.2 GET /notifications: an unknown parameter is 400 naming it', async (t) => {
  const { client } = await startApi(t)
  for (const name of ['q', 'Severity', 'since', 'test', 'constructor', 'sort']) {
    const { status, error } = await client.get(`/notifications?${name}=1`)
    t.match({ status, code: error?.code }, { status: 400, code: 'INVALID_INPUT' }, name)
    t.same(error?.details, { [name]: 'unknown parameter' }, name)
  }
  const two = await client.get('/notifications?one=1&two=&limit=0')
  t.same(Object.keys(two.error?.details ?? {}).toSorted(), ['limit', 'one', 'two'])
})

t.test('4.1 GET /notifications: it is a GET alone', async (t) => {
  const { client } = await startApi(t)
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const { status, headers } = await client.ask(method, '/notifications', { body: {} })
    t.equal(status, 405, method)
    t.equal(headers.get('allow'), 'GET, HEAD')
  }
})
