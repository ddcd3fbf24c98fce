import t, { type Test } from 'tap'
import { transaction } from '../../../storage/postgres/pool.ts'
import { stallWaiting } from '../../../storage/sql/maintain.ts'
import { answering, startWebServer, take, type WebServer } from '../../actors/http/web-server.ts'
import { raiseAlert } from '../../support/alerts.ts'
import { startApi, type TestApi } from '../../support/api.ts'
import { until } from '../../support/processes.ts'

/** Specification 3.4 and 3.3 where they tell of alerts, 3.6 and 6.2: from the event over HTTP to the post at a webhook. */

t.setTimeout(600_000)

type Row = Readonly<Record<string, unknown>>

interface Site {
  readonly api: TestApi
  readonly web: WebServer
  /** Saves a notifier that posts to `/<name>` of the web server, and starts it unless told otherwise. */
  readonly notifier: (name: string, settings?: object, started?: boolean) => Promise<void>
  readonly rows: (filter?: string) => Promise<Row[]>
  /** The row of an alert when its outcome is no longer this. */
  readonly settled: (subjectName: string, outcome?: string) => Promise<Row>
}

async function startSite(t: Test): Promise<Site> {
  const api = await startApi(t)
  const web = await startWebServer(t)
  const rows = async (filter = ''): Promise<Row[]> => {
    const { status, data, text } = await api.client.get(`/notifications?limit=500&${filter}`)
    if (status !== 200) throw new Error(text)
    return data['notifications'] as Row[]
  }
  return {
    api,
    web,
    rows,
    notifier: async (name, settings = {}, started = true) => {
      const body = { name, url: `${web.url}/${name}`, ...settings }
      await api.client.create('/plugins/configs?type=notification-webhook', body)
      if (!started) return
      const { status, text } = await api.client.post(`/services/notification-webhook/${name}/start`)
      if (status !== 200) throw new Error(text)
    },
    settled: async (subjectName, outcome = 'queued') => {
      let found: Row | undefined
      await until(async () => {
        found = (await rows()).find((row) => row['subject_name'] === subjectName)
        return found !== undefined && found['outcome'] !== outcome
      })
      return found ?? {}
    },
  }
}

/** A file writer whose directory cannot be. */
async function brokenWriter(api: TestApi, name: string): Promise<void> {
  const body = { name, base_directory: '/dev/null/nowhere' }
  await api.client.create('/plugins/configs?type=file-writer', body)
}

t.test('6.2 Alerts and notifications', async (t) => {
  t.test(
    '6.2 plugin_failed is raised when a service start fails, before the failure is answered',
    async (t) => {
      const { api, notifier, rows } = await startSite(t)
      await notifier('operators', {}, false)
      await brokenWriter(api, 'archive')
      const { status, error } = await api.client.post('/services/file-writer/archive/start')
      t.match({ status, code: error?.code }, { status: 500, code: 'START_FAILED' })
      const found = await rows()
      t.match(found, [
        {
          code: 'plugin_failed',
          severity: 'critical',
          subject_kind: 'plugin',
          subject_id: 'file-writer:archive',
          subject_name: 'archive',
          dedupe_key: 'plugin_failed/file-writer:archive',
          test: false,
        },
      ])
      t.equal(found.length, 1)
      t.match(found[0]?.['summary'], /archive/)
      t.match(found[0]?.['details'], error?.message ?? '?', 'it has the reason of the answer')
    },
  )

  t.test('3.4 stopped, error: each start or restart that fails raises it; a success does not', async (t) => {
    const { api, notifier, rows } = await startSite(t)
    await notifier('operators', {}, false)
    await brokenWriter(api, 'archive')
    const act = async (action: string): Promise<number> =>
      (await api.client.post(`/services/file-writer/archive/${action}`)).status
    for (const [at, action] of ['start', 'start', 'restart'].entries()) {
      t.equal(await act(action), 500)
      t.equal((await rows('code=plugin_failed')).length, at + 1, `${action} ${at}`)
    }
    await api.client.put('/plugins/configs/file-writer/archive', { base_directory: api.directory })
    for (const action of ['start', 'restart', 'stop', 'start']) t.equal(await act(action), 200)
    t.equal((await rows()).length, 3)
    await api.client.put('/plugins/configs/file-writer/archive', { base_directory: '/dev/null/nowhere' })
    t.equal(await act('restart'), 500, 'a restart that fails')
    t.equal((await rows()).length, 4)
  })

  t.test('6.2 A stop raises no alert, nor does an action that is refused', async (t) => {
    const { api, notifier, rows } = await startSite(t)
    await notifier('operators', { min_severity: 'info' }, false)
    const body = { name: 'archive', base_directory: api.directory }
    await api.client.create('/plugins/configs?type=file-writer', body)
    const act = async (action: string): Promise<number> =>
      (await api.client.post(`/services/file-writer/archive/${action}`)).status
    t.equal(await act('stop'), 409)
    t.equal(await act('start'), 200)
    t.equal(await act('start'), 409)
    t.equal(await act('stop'), 200)
    t.equal(await act('start'), 200)
    t.equal((await api.client.put('/plugins/configs/file-writer/archive', { enabled: false })).status, 200)
    t.equal((await api.client.delete('/plugins/configs/file-writer/archive')).status, 204)
    t.same(await rows(), [])
  })

  t.test('6.2 delivery_stalled is raised when a delivery is marked stalled', async (t) => {
    const { api, notifier, rows } = await startSite(t)
    await notifier('operators', {}, false)
    const message = await stalledMessage(api)
    t.equal(message['status'], 'Stalled')
    const id = String(message['id'])
    t.match(await rows(), [
      {
        code: 'delivery_stalled',
        severity: 'critical',
        subject_kind: 'message',
        subject_id: id,
        subject_name: message['file_name'],
        dedupe_key: 'delivery_stalled/writer/globex',
        link: `http://localhost:8080/api/v1/messages/${id}`,
      },
    ])
    const [{ summary, details } = {}] = await rows()
    for (const word of [String(message['file_name']), 'globex', 'writer'])
      t.ok(String(summary).includes(word), `the summary names ${word}: ${String(summary)}`)
    t.match(details, new RegExp(id))
  })

  t.test('6.2 Each alert is logged per notifier', async (t) => {
    const { api, notifier, rows } = await startSite(t)
    for (const name of ['one', 'two', 'three']) await notifier(name, {}, false)
    await brokenWriter(api, 'archive')
    await api.client.post('/services/file-writer/archive/start')
    const found = await rows()
    t.same(found.map(({ instance }) => String(instance)).toSorted(), ['one', 'three', 'two'])
    t.equal(new Set(found.map((row) => row['alert_id'])).size, 1)
  })

  t.test('6.2 without a notifier an alert has no row, and nothing fails', async (t) => {
    const { api, rows } = await startSite(t)
    await brokenWriter(api, 'archive')
    t.equal((await api.client.post('/services/file-writer/archive/start')).status, 500)
    t.equal((await stalledMessage(api))['status'], 'Stalled')
    t.same(await rows(), [])
    const { rows: alerts } = await api.database.pool.query<{ code: string }>(
      'select code from alert order by id',
    )
    t.same(
      alerts.map(({ code }) => code),
      ['plugin_failed', 'delivery_stalled'],
    )
  })

  t.test('6.2 a service that does not start reaches the webhook of a notifier', async (t) => {
    const { api, web, notifier, settled } = await startSite(t)
    await notifier('operators')
    await brokenWriter(api, 'archive')
    await api.client.post('/services/file-writer/archive/start')
    t.match(await settled('archive'), { outcome: 'delivered', attempts: 1 })
    const [post] = web.received('/operators').map(({ body }) => JSON.parse(String(body)) as Row)
    t.match(post, {
      version: '1',
      type: 'alert.raised',
      notifier: 'operators',
      count: 1,
      alert: { code: 'plugin_failed', subject_id: 'file-writer:archive' },
    })
  })
})

/** A message whose target nobody runs, and whose delivery was announced often enough. */
async function stalledMessage(api: TestApi): Promise<Row> {
  const { client, database } = api
  await client.create('/organizations', { name: 'acme' })
  await client.create('/partners', { name: 'globex' })
  await client.create('/plugins/configs?type=file-writer', { name: 'writer', base_directory: api.directory })
  const parts = { from: 'acme', to: 'globex', target: 'writer', file: 'UNA' }
  const { data } = await client.ask('POST', '/messages', { parts })
  await database.pool.query(`update delivery set waiting_since = now() - interval '1 hour'`)
  await database.pool.query('delete from target_work')
  if ((await stallWaiting(database.pool, 1)) !== 1) throw new Error('Nothing has stalled')
  return (await client.get(`/messages/${String(data['id'])}`)).data
}

t.test('3.6 Notification outcome', async (t) => {
  t.test('3.6 queued: alerts that are raised while the notifier is stopped wait for it', async (t) => {
    const { api, web, notifier, rows, settled } = await startSite(t)
    await notifier('operators', {}, false)
    for (const subjectName of ['a', 'b'])
      await raiseAlert(api.database.pool, { code: 'delivery_failed', severity: 'critical', subjectName })
    t.match(await rows(), [
      { outcome: 'queued', attempts: 0, delivered_at: null, last_error: null },
      { outcome: 'queued', attempts: 0 },
    ])
    t.equal(web.received('/operators').length, 0)
    t.equal((await api.client.post('/services/notification-webhook/operators/start')).status, 200)
    for (const name of ['a', 'b']) t.match(await settled(name), { outcome: 'delivered' })
    t.equal(web.received('/operators').length, 2)
  })

  t.test('3.6 delivered: the webhook has taken the post', async (t) => {
    const { api, web, notifier, settled } = await startSite(t)
    await notifier('operators')
    await raiseAlert(api.database.pool, { code: 'storage_failed', severity: 'critical', subjectName: 'a' })
    const row = await settled('a')
    t.match(row, { outcome: 'delivered', attempts: 1, last_error: null, delivered_at: String })
    t.ok(Date.parse(String(row['delivered_at'])) >= Date.parse(String(row['created_at'])))
    t.equal(web.received('/operators').length, 1)
  })

  t.test('3.6 failed: the webhook has refused it, and last_error says how', async (t) => {
    const { api, web, notifier, settled } = await startSite(t)
    web.behave('/operators', answering(403))
    await notifier('operators')
    await raiseAlert(api.database.pool, { code: 'storage_failed', severity: 'critical', subjectName: 'a' })
    t.match(await settled('a'), { outcome: 'failed', attempts: 1, last_error: /403/, delivered_at: null })
    t.equal(web.received('/operators').length, 1)
  })

  t.test('3.6 suppressed_cooldown: the same key was delivered within the cooldown', async (t) => {
    const { api, web, notifier, settled, rows } = await startSite(t)
    await notifier('operators', { cooldown_minutes: 10 })
    const raise = (subjectName: string, repeats: string) =>
      raiseAlert(api.database.pool, { code: 'delivery_failed', severity: 'critical', subjectName, repeats })
    await raise('a', 'out/globex')
    t.match(await settled('a'), { outcome: 'delivered' })
    await raise('b', 'out/globex')
    await raise('c', 'out/initech')
    t.match(await settled('b'), { outcome: 'suppressed_cooldown', attempts: 0, delivered_at: null })
    t.match(await settled('c'), { outcome: 'delivered' }, 'another key is no repeat')
    t.equal(web.received('/operators').length, 2)
    t.equal((await rows('outcome=suppressed_cooldown')).length, 1)
  })

  t.test('3.6 queued: a post that was not taken waits for its repeat, and last_error says why', async (t) => {
    const { api, web, notifier, settled, rows } = await startSite(t)
    const held = Promise.withResolvers<void>()
    web.behave('/operators', async (request, response, received) => {
      await take(request, received)
      if (received.length > 1) await held.promise
      response.writeHead(received.length > 1 ? 200 : 503).end()
    })
    await notifier('operators', { retry_initial_seconds: 1, retry_max_seconds: 1 })
    await raiseAlert(api.database.pool, { code: 'delivery_failed', severity: 'critical', subjectName: 'a' })
    await until(() => web.received('/operators').length === 2)
    t.match(await rows(), [{ outcome: 'queued', last_error: /503/, delivered_at: null }])
    held.resolve()
    t.match(await settled('a'), { outcome: 'delivered', attempts: 2, last_error: null, delivered_at: String })
  })

  t.test('3.6 queued, then failed: its notifier is deleted', async (t) => {
    const { api, web, notifier, rows } = await startSite(t)
    await notifier('operators', {}, false)
    await raiseAlert(api.database.pool, { code: 'delivery_failed', severity: 'critical', subjectName: 'a' })
    t.match(await rows(), [{ outcome: 'queued' }])
    t.equal((await api.client.delete('/plugins/configs/notification-webhook/operators')).status, 204)
    const last_error = 'The notifier was deleted'
    t.match(await rows(), [{ outcome: 'failed', attempts: 0, last_error, delivered_at: null }])
    t.equal(web.received('/operators').length, 0)
  })

  t.test('3.6 suppressed_cooldown: a repeat within the group of the first', async (t) => {
    const { api, web, notifier, settled, rows } = await startSite(t)
    await notifier('operators', { group_seconds: 1, cooldown_minutes: 10 })
    await raiseAtOnce(api, { a: 'out/globex', b: 'out/globex', c: 'out/initech', d: 'out/globex' })
    t.match(await settled('a'), { outcome: 'delivered', attempts: 1 })
    t.match(await settled('c'), { outcome: 'grouped' })
    // They waited for what came of the first, and are looked at afterwards.
    for (const name of ['b', 'd']) t.match(await settled(name), { outcome: 'suppressed_cooldown' })
    const left = await rows('outcome=suppressed_cooldown')
    t.same(left.map((row) => String(row['subject_name'])).toSorted(), ['b', 'd'])
    for (const row of left) t.match(row, { attempts: 0, last_error: null, delivered_at: null })
    const posts = web.received('/operators').map(({ body }) => JSON.parse(String(body)) as Row)
    t.match(posts, [
      { type: 'alert.grouped', count: 2, alerts: [{ subject_name: 'a' }, { subject_name: 'c' }] },
    ])
  })

  t.test('3.6 grouped: folded into the post of another row', async (t) => {
    const { api, web, notifier, settled, rows } = await startSite(t)
    await notifier('operators', { group_seconds: 1 })
    await raiseAtOnce(api, { a: 'one', b: 'two', c: 'three' })
    t.match(await settled('a'), { outcome: 'delivered', attempts: 1 })
    const grouped = await rows('outcome=grouped')
    t.same(grouped.map((row) => String(row['subject_name'])).toSorted(), ['b', 'c'])
    for (const row of grouped) t.match(row, { attempts: 0, last_error: null, delivered_at: String })
    const posts = web.received('/operators').map(({ body }) => JSON.parse(String(body)) as Row)
    t.match(posts, [{ type: 'alert.grouped', count: 3 }])
    t.equal(posts.length, 1)
  })

  t.test('3.6 grouped, then failed: the webhook has refused the post of the group', async (t) => {
    const { api, web, notifier, settled, rows } = await startSite(t)
    web.behave('/operators', answering(410))
    await notifier('operators', { group_seconds: 1 })
    await raiseAtOnce(api, { a: 'one', b: 'two' })
    t.match(await settled('a'), { outcome: 'failed', attempts: 1, last_error: /410/ })
    t.match(await settled('b', 'grouped'), { outcome: 'failed', attempts: 0, last_error: /410/ })
    t.match(await rows(), [{ delivered_at: null }, { delivered_at: null }])
    t.equal(web.received('/operators').length, 1)
  })
})

/** Failures with what repeats of each, all at one moment: whoever groups alerts has them in one group. */
function raiseAtOnce({ database }: TestApi, alerts: Readonly<Record<string, string>>): Promise<void> {
  return transaction(database.pool, async (client) => {
    for (const [subjectName, repeats] of Object.entries(alerts))
      await raiseAlert(client, { code: 'delivery_failed', severity: 'critical', subjectName, repeats })
  })
}
