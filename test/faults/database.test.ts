import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { createLog } from '../../runtime/log.ts'
import { startEmbedded, type EmbeddedServer } from '../../storage/postgres/embedded.ts'
import { databaseProxy } from '../support/database-proxy.ts'
import {
  as2Headers,
  drop,
  healthOf,
  servicesOf,
  setUpSite,
  startPartner,
  startSite,
} from '../support/exchange-site.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

const LIMIT_MS = 120_000
/** How long the network is silent (the guarantee speaks of this time). */
const SILENCE_MS = 60_000

t.setTimeout(600_000)

async function startDatabase(t: Test, directory: string): Promise<EmbeddedServer> {
  await mkdir(directory, { recursive: true })
  const server = await startEmbedded({ directory, log: createLog('silent') })
  t.teardown(() => server.stop())
  return server
}

/** A service whose database is reached through a proxy, and everything that it does, at work. */
async function prepare(t: Test) {
  const directory = await temporaryDirectory(t)
  const place = join(directory, 'database')
  const server = await startDatabase(t, place)
  const proxy = await databaseProxy(t, server.url)
  const partner = await startPartner(t)
  const waybill = await Waybill.start({ directory, env: { DATABASE_URL: proxy.url, LOG_LEVEL: 'error' } })
  t.teardown(() => waybill.kill())
  const site = await setUpSite(waybill, { directory, postUrl: partner.url })
  await startSite(waybill)
  let dropped = 0
  const dropSome = async (): Promise<void> => {
    for (let count = 0; count < 20; count += 1) {
      await drop(site.outbox, `${dropped}.txt`, `message ${dropped}`)
      dropped += 1
    }
  }
  const allArrived = () => until(() => partner.distinct.size >= dropped, LIMIT_MS)
  await dropSome()
  await allArrived()
  return { directory, place, server, proxy, partner, waybill, site, dropSome, allArrived }
}

type Prepared = Awaited<ReturnType<typeof prepare>>

/** What holds while the database is away: it is said, nothing is taken in, nobody dies. */
async function isAway(t: Test, { waybill, site, dropSome }: Prepared): Promise<void> {
  const startedAt = performance.now()
  await until(async () => (await healthOf(waybill)).code === 503, LIMIT_MS)
  t.comment(`told after ${Math.round(performance.now() - startedAt)} ms`)
  t.match(await healthOf(waybill), {
    status: 'unhealthy',
    database: 'down',
    problems: ['The database does not answer'],
  })
  await dropSome()
  const list = await fetch(`${waybill.url}/api/v1/organizations`)
  t.equal(list.status, 503)
  t.ok(list.headers.has('retry-after'))
  t.match(await list.json(), { data: null, error: { code: 'DATABASE_UNAVAILABLE' } })
  const headers = as2Headers(randomUUID())
  const sent = await fetch(site.receiverUrl, { method: 'POST', headers, body: 'an order' })
  t.equal(sent.status, 503, 'AS2 has no receipt')
  t.ok(sent.headers.has('retry-after'))
}

/** What holds when it is back: all that waited arrives, and nothing had to be started again. */
async function isBack(t: Test, { waybill, partner, site, dropSome, allArrived }: Prepared): Promise<void> {
  const startedAt = performance.now()
  await until(async () => (await healthOf(waybill)).code === 200, LIMIT_MS)
  await dropSome()
  await allArrived()
  t.comment(`all arrived after ${Math.round(performance.now() - startedAt)} ms`)
  const messageId = randomUUID()
  const send = async (body: string) =>
    (await fetch(site.receiverUrl, { method: 'POST', headers: as2Headers(messageId), body })).status
  await until(async () => (await send(`order ${messageId}`)) === 200, LIMIT_MS)
  await until(() => partner.distinct.has(`order ${messageId}`), LIMIT_MS)
  t.ok(waybill.running, 'the process lives')
  for (const { name, status, restarts } of await servicesOf(waybill)) {
    t.match({ status, restarts }, { status: 'running', restarts: 0 }, `${name} never broke down`)
  }
}

t.test('a database that restarts is waited for', async (t) => {
  const prepared = await prepare(t)
  const { server, proxy, place } = prepared
  await server.stop()
  await isAway(t, prepared)
  const again = await startDatabase(t, place)
  proxy.leadTo(again.url)
  await isBack(t, prepared)

  await t.test('one that is lost without a word for a minute is waited for, too', async (t) => {
    proxy.fallSilent()
    const silentSince = performance.now()
    await isAway(t, prepared)
    await sleep(Math.max(0, SILENCE_MS - (performance.now() - silentSince)))
    proxy.speak()
    await isBack(t, prepared)
  })

  await t.test('another server under the same name is taken up', async (t) => {
    await again.stop()
    await proxy.close()
    await isAway(t, prepared)
    const other = join(prepared.directory, 'other-database')
    // With the owners of the files, who differ where root runs this.
    await promisify(execFile)('cp', ['-a', place, other])
    const standby = await startDatabase(t, other)
    proxy.leadTo(standby.url)
    await proxy.open()
    await isBack(t, prepared)
  })
})
