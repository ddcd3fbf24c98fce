import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createLog } from '../../runtime/log.ts'
import { startEmbedded } from '../../storage/postgres/embedded.ts'
import { databaseProxy } from '../support/database-proxy.ts'
import { servicesOf } from '../support/exchange-site.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

const LIMIT_MS = 40_000

t.setTimeout(600_000)

t.test('an instance that cannot start because the database is away starts when it is back', async (t) => {
  const directory = await temporaryDirectory(t)
  const place = join(directory, 'database')
  await mkdir(place)
  const server = await startEmbedded({ directory: place, log: createLog('silent') })
  t.teardown(() => server.stop())
  const proxy = await databaseProxy(t, server.url)
  const waybill = await Waybill.start({ directory, env: { DATABASE_URL: proxy.url, LOG_LEVEL: 'error' } })
  t.teardown(() => waybill.kill())
  const settings = { name: 'poster', url: 'http://127.0.0.1:9/' }
  await waybill.request('POST', '/plugins/configs?type=http-poster', settings)
  const path = '/services/http-poster/poster'
  await waybill.request('POST', `${path}/start`)

  await proxy.close()
  const answer = await fetch(`${waybill.url}/api/v1${path}/restart`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  })
  t.equal(answer.status, 500)
  const reason = 'The database does not answer; the start is tried again by itself'
  t.match(await answer.json(), { data: null, error: { code: 'START_FAILED', message: reason } })
  // A try may be under way.
  await until(async () => (await servicesOf(waybill))[0]?.status === 'error', LIMIT_MS)
  await proxy.open()
  await until(async () => (await servicesOf(waybill))[0]?.status === 'running', LIMIT_MS)
  t.match(await servicesOf(waybill), [{ name: 'poster', status: 'running', restarts: 0 }])

  const actions = async () => {
    const { events } = await waybill.request<{ events: readonly { action: string; kind: string }[] }>(
      'GET',
      '/audit',
    )
    return events.filter(({ kind }) => kind === 'service-instance').map(({ action }) => action)
  }
  await until(async () => (await actions()).length >= 2, LIMIT_MS)
  t.same(await actions(), ['stopped', 'started'], 'the failed restart is told, too')
})
