import t from 'tap'
import { startWebServer } from '../actors/http/web-server.ts'
import { createTestDatabase } from '../support/database.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

/** Alerts of the process as an operator starts it. */

t.setTimeout(600_000)

interface Row {
  readonly code: string
  readonly outcome: string
  readonly link: string | null
  readonly details: string
}

t.test(
  'an instance that fails when the process starts is told to the webhook, with a link below PUBLIC_URL',
  async (t) => {
    const { url } = await createTestDatabase(t)
    const web = await startWebServer(t)
    const directory = await temporaryDirectory(t)
    const env = { DATABASE_URL: url, PUBLIC_URL: 'https://waybill.example.com/edi/', WAYBILL_NODE: 'node-7' }
    const first = await Waybill.start({ directory, env })
    t.teardown(async () => void (await first.stop()))
    const plugins = '/plugins/configs?type='
    await first.request('POST', `${plugins}notification-webhook`, {
      name: 'operators',
      url: `${web.url}/hook`,
    })
    const nowhere = '/dev/null/nowhere'
    await first.request('POST', `${plugins}file-writer`, { name: 'archive', base_directory: nowhere })
    t.same((await first.request<{ notifications: Row[] }>('GET', '/notifications')).notifications, [])
    t.equal(await first.stop(), 0)

    const second = await Waybill.start({ directory, env })
    t.teardown(async () => void (await second.stop()))
    const rows = async (): Promise<Row[]> =>
      (await second.request<{ notifications: Row[] }>('GET', '/notifications')).notifications
    await until(async () => (await rows()).some(({ outcome }) => outcome === 'delivered'))
    const link = 'https://waybill.example.com/edi/api/v1/plugins/configs/file-writer/archive'
    const found = await rows()
    t.match(found, [{ code: 'plugin_failed', outcome: 'delivered', link }])
    t.equal(found.length, 1, 'once')
    t.match(found[0]?.details, /\/dev\/null\/nowhere/)
    t.match(found[0]?.details, /node-7/)
    const posts = web.received('/hook').map(({ body }) => JSON.parse(String(body)) as { alert: Row })
    t.match(posts, [{ alert: { code: 'plugin_failed', link } }])
    t.equal(posts.length, 1)
    t.equal(await second.stop(), 0, 'and the process ends in order')
  },
)

t.test('without PUBLIC_URL links lead to the port on which the API listens', async (t) => {
  const { url } = await createTestDatabase(t)
  const web = await startWebServer(t)
  const directory = await temporaryDirectory(t)
  const waybill = await Waybill.start({ directory, env: { DATABASE_URL: url, HTTP_PORT: '0' } })
  t.teardown(async () => void (await waybill.stop()))
  const operators = { name: 'operators', url: `${web.url}/hook` }
  await waybill.request('POST', '/plugins/configs?type=notification-webhook', operators)
  await waybill.request('POST', '/services/notification-webhook/operators/start')
  const path = '/plugins/configs/notification-webhook/operators'
  const row = await waybill.request<Row>('POST', `${path}/test`)
  const link = `http://localhost:${new URL(waybill.url).port}/api/v1${path}`
  t.equal(row.link, link)
  const { notifications } = await waybill.request<{ notifications: Row[] }>(
    'GET',
    '/notifications?include_tests=true',
  )
  t.match(notifications, [{ link }])
  t.match(JSON.parse(String(web.received('/hook')[0]?.body)), { alert: { link } })
})
