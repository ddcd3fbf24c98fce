import t, { type Test } from 'tap'
import { answering, startWebServer, take, type WebServer } from '../actors/http/web-server.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { until } from '../support/processes.ts'

/** Specification 6.2 and the row POST /plugins/configs/notification-webhook/{name}/test of 4.3, with a real webhook. */

t.setTimeout(600_000)

const CONFIGURATIONS = '/plugins/configs/notification-webhook'

type Row = Readonly<Record<string, unknown>>

interface Site {
  readonly api: TestApi
  readonly web: WebServer
  /** Saves a notifier that posts to `/<name>` of the web server. */
  readonly save: (name: string, settings?: object) => Promise<void>
  readonly run: (name: string, settings?: object) => Promise<void>
  readonly rows: (filter?: string) => Promise<Row[]>
  /** Tests a notifier that runs; answers the row when its outcome is known. */
  readonly tested: (name: string) => Promise<Row>
}

async function startSite(t: Test): Promise<Site> {
  const api = await startApi(t)
  const web = await startWebServer(t)
  const save = async (name: string, settings: object = {}): Promise<void> => {
    const body = { name, url: `${web.url}/${name}`, ...settings }
    await api.client.create('/plugins/configs?type=notification-webhook', body)
  }
  const rows = async (filter = 'include_tests=true'): Promise<Row[]> =>
    (await api.client.get(`/notifications?${filter}`)).data['notifications'] as Row[]
  return {
    api,
    web,
    save,
    rows,
    tested: async (name) => {
      const { status, data, text } = await api.client.post(`${CONFIGURATIONS}/${name}/test`)
      if (status !== 200) throw new Error(text)
      let row: Row = data
      // On the busiest machine the post takes longer than the answer waits.
      await until(async () => {
        if (row['outcome'] === 'queued') row = (await rows()).find(({ id }) => id === data['id']) ?? row
        return row['outcome'] !== 'queued'
      })
      return row
    },
    run: async (name, settings) => {
      await save(name, settings)
      const { status, text } = await api.client.post(`/services/notification-webhook/${name}/start`)
      if (status !== 200) throw new Error(text)
    },
  }
}

t.test('6.2 POST …/test sends a test notification and answers its row of the notification log', async (t) => {
  const { api, web, run, rows } = await startSite(t)
  await run('operators')
  let answer = await api.client.post(`${CONFIGURATIONS}/operators/test`)
  // On the busiest machine the post takes longer than the answer waits.
  for (let again = 0; again < 5 && answer.data['outcome'] === 'queued'; again += 1)
    answer = await api.client.post(`${CONFIGURATIONS}/operators/test`)
  const { status, data } = answer
  t.equal(status, 200)
  t.match(data, {
    severity: 'info',
    code: 'test',
    subject_kind: 'plugin',
    subject_id: 'notification-webhook:operators',
    subject_name: 'operators',
    link: `http://localhost:8080/api/v1${CONFIGURATIONS}/operators`,
    instance: 'operators',
    format: 'generic',
    test: true,
    outcome: 'delivered',
    attempts: 1,
    last_error: null,
    delivered_at: String,
  })
  const posts = web.received('/operators').map(({ body }) => JSON.parse(String(body)) as Row)
  t.match(posts.at(-1), { type: 'alert.test', alert: { alert_id: data['alert_id'] } })
  t.equal(posts.length, (await rows()).length)
  t.same((await rows())[0], data, 'the log has that very row')
})

t.test('6.2 its rows have test true and are hidden from the list unless include_tests is true', async (t) => {
  const { api, save, rows } = await startSite(t)
  await save('operators')
  t.match(await api.client.post(`${CONFIGURATIONS}/operators/test`), { data: { test: true } })
  t.same(await rows(''), [])
  t.same(await rows('include_tests=false'), [])
  t.match(await rows('include_tests=true'), [{ test: true, code: 'test' }])
})

t.test(
  'a test goes to its notifier alone, whatever that filters, groups or has delivered before',
  async (t) => {
    const { web, run, save, rows, tested } = await startSite(t)
    const filters = { min_severity: 'critical', codes: ['storage_failed'] }
    await run('operators', { ...filters, cooldown_minutes: 60, group_seconds: 3600 })
    await save('others', { min_severity: 'info' })
    for (const times of [1, 2, 3]) {
      t.match(await tested('operators'), { outcome: 'delivered' })
      t.equal(web.received('/operators').length, times)
    }
    const all = await rows()
    t.same(
      all.map(({ instance, outcome }) => [instance, outcome]),
      Array.from({ length: 3 }, () => ['operators', 'delivered']),
    )
    t.equal(new Set(all.map(({ dedupe_key }) => dedupe_key)).size, 3)
  },
)

t.test('a test that the webhook does not take is answered 200 with the reason, and tried once', async (t) => {
  const { web, run, tested } = await startSite(t)
  await run('operators', { retry_initial_seconds: 1, retry_max_seconds: 1 })
  let posts = 0
  for (const status of [404, 302, 500, 503, 429]) {
    web.behave('/operators', answering(status))
    const row = await tested('operators')
    t.match(row, { outcome: 'failed', attempts: 1, delivered_at: null })
    t.match(row['last_error'], new RegExp(`${status}`))
    posts += 1
    t.equal(web.received('/operators').length, posts)
  }
})

t.test('a test of a notifier that does not run is queued at once, and is posted when it runs', async (t) => {
  const { api, web, save, rows } = await startSite(t)
  await save('operators')
  const { status, data } = await api.client.post(`${CONFIGURATIONS}/operators/test`)
  t.equal(status, 200)
  t.match(data, { outcome: 'queued', attempts: 0, last_error: null, delivered_at: null })
  t.equal(web.received('/operators').length, 0)
  t.equal((await api.client.post('/services/notification-webhook/operators/start')).status, 200)
  await until(async () => (await rows())[0]?.['outcome'] === 'delivered')
  t.match(await rows(), [{ id: data['id'], attempts: 1 }])
  t.equal(web.received('/operators').length, 1)
})

t.test('a test of a disabled notifier is queued', async (t) => {
  const { api, web, save } = await startSite(t)
  await save('operators', { enabled: false })
  const { status, data } = await api.client.post(`${CONFIGURATIONS}/operators/test`)
  t.match({ status, data }, { status: 200, data: { outcome: 'queued', test: true } })
  t.equal(web.received('/operators').length, 0)
})

t.test(
  'a webhook that does not answer is waited for no longer than ten seconds: then it is queued',
  async (t) => {
    const { api, web, run, rows } = await startSite(t)
    const answered = Promise.withResolvers<void>()
    web.behave('/operators', async (request, response, received) => {
      await take(request, received)
      await answered.promise
      response.writeHead(200).end()
    })
    await run('operators')
    const { status, data } = await api.client.post(`${CONFIGURATIONS}/operators/test`)
    t.match({ status, data }, { status: 200, data: { outcome: 'queued' } })
    await until(() => web.received('/operators').length === 1)
    answered.resolve()
    await until(async () => (await rows())[0]?.['outcome'] === 'delivered')
    t.match(await rows(), [{ id: data['id'], attempts: 1 }])
  },
)

t.test(
  '404 for a notifier that there is not, also where an instance of another type has the name',
  async (t) => {
    const { api, rows } = await startSite(t)
    await api.client.create('/plugins/configs?type=file-writer', { name: 'archive', base_directory: 'out' })
    for (const name of ['nobody', 'archive', 'Operators', '__proto__', '%20']) {
      const { status, error } = await api.client.post(`${CONFIGURATIONS}/${name}/test`)
      t.match({ status, code: error?.code }, { status: 404, code: 'NOT_FOUND' }, name)
    }
    for (const type of ['file-writer', 'fax'])
      t.equal((await api.client.post(`/plugins/configs/${type}/archive/test`)).status, 404, type)
    t.same(await rows(), [], 'nothing was made')
  },
)

t.test('a test that meets the deletion of its notifier ends with it, or is 404', async (t) => {
  const { api, web, save, rows, run } = await startSite(t)
  const path = `${CONFIGURATIONS}/operators`
  let made = 0
  for (let round = 0; round < 20; round += 1) {
    await save('operators')
    const tests = Array.from({ length: 4 }, () => api.client.post(`${path}/test`))
    const deleted = api.client.delete(path)
    for (const { status } of await Promise.all(tests)) {
      t.ok(status === 200 || status === 404, `${status}`)
      if (status === 200) made += 1
    }
    t.equal((await deleted).status, 204)
  }
  const all = await rows('include_tests=true&limit=500')
  for (const row of all) t.match(row, { outcome: 'failed', last_error: 'The notifier was deleted' })
  t.ok(all.length >= made)
  await run('operators', { url: `${web.url}/successor` })
  const { data } = await api.client.post(`${path}/test`)
  await until(async () =>
    (await rows()).some(({ id, outcome }) => id === data['id'] && outcome === 'delivered'),
  )
  t.equal(web.received('/successor').length, 1, 'whoever has the name next is told nothing of it')
})

t.test('4.1 Content-Type application/json, also without a body; no other method', async (t) => {
  const { api, save, rows } = await startSite(t)
  await save('operators')
  const path = `${CONFIGURATIONS}/operators/test`
  const { status, headers } = await api.client.ask('POST', path)
  t.match({ status, accept: headers.get('accept') }, { status: 415, accept: /application\/json/ })
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const answer = await api.client.ask(method, path, method === 'GET' ? {} : { body: {} })
    t.equal(answer.status, 405, method)
    t.equal(answer.headers.get('allow'), 'POST')
  }
  const unknown = await api.client.post(path, { severity: 'critical' })
  t.match(unknown, { status: 400, error: { code: 'INVALID_INPUT' } })
  t.same(await rows(), [], 'nothing was made')
  const empty = { headers: { 'content-type': 'application/json' } }
  t.equal((await api.client.ask('POST', path, empty)).status, 200)
})

t.test('2.1 rule 8: neither the row nor a failure has a write-only value of the notifier', async (t) => {
  const { api, web, run, tested } = await startSite(t)
  await run('operators', {
    url: `${web.url}/operators/hunter1`,
    basic_username: 'waybill',
    basic_password: 'hunter2',
    headers: [{ name: 'X-Team', value: 'hunter3' }],
    signing_secret: `whsec_${Buffer.from('hunter4 hunter4 hunter4 hunter4').toString('base64')}`,
  })
  web.behave('/operators/hunter1', answering(500))
  const failed = await tested('operators')
  t.match(failed, { outcome: 'failed' })
  t.notMatch(JSON.stringify(failed), /hunter|127\.0\.0\.1/)
  t.notMatch((await api.client.get('/notifications?include_tests=true')).text, /hunter/)
})
