import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createLog } from '../../runtime/log.ts'
import { startEmbedded } from '../../storage/postgres/embedded.ts'
import { openPool, query } from '../../storage/postgres/pool.ts'
import { startApi } from '../support/api.ts'
import { createTestDatabase } from '../support/database.ts'
import { databaseProxy } from '../support/database-proxy.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

const LIMIT_MS = 60_000

interface Health {
  readonly code: number
  readonly status: string
  readonly database: string
}

async function healthOf(waybill: Waybill): Promise<Health> {
  const answer = await fetch(`${waybill.url}/api/v1/health`, { signal: AbortSignal.timeout(LIMIT_MS) })
  return { code: answer.status, ...((await answer.json()) as { status: string; database: string }) }
}

const untilHealthy = (waybill: Waybill): Promise<void> =>
  until(async () => (await healthOf(waybill)).code === 200, LIMIT_MS)

t.test('GET /health', async (t) => {
  const { client, database } = await startApi(t)

  t.test('is unwrapped and healthy while the database answers', async (t) => {
    const answer = await client.get('/health')
    t.equal(answer.status, 200)
    const body = JSON.parse(answer.text) as Record<string, unknown>
    t.same(Object.keys(body), ['status', 'timestamp', 'database'])
    t.match(body, { status: 'healthy', database: 'up' })
    t.ok(Math.abs(Date.parse(String(body['timestamp'])) - Date.now()) < LIMIT_MS)
  })

  t.test('needs no credential, and looks at none', async (t) => {
    const release = await startApi(t, { build: 'release' })
    t.equal((await release.client.get('/health')).status, 200)
    const wrong = await release.client.get('/health', { headers: { authorization: 'Bearer nonsense' } })
    t.equal(wrong.status, 200)
    t.equal((await release.client.get('/stats')).status, 401)
  })

  t.test('is 503 and unhealthy while every connection is taken, and recovers', async (t) => {
    const clients = await Promise.all(Array.from({ length: 10 }, () => database.pool.connect()))
    const answers = await Promise.all(Array.from({ length: 20 }, () => client.get('/health')))
    t.same(new Set(answers.map(({ status }) => status)), new Set([503]))
    t.match(JSON.parse(answers[0]?.text ?? ''), { status: 'unhealthy', database: 'down' })
    t.ok(database.pool.waitingCount <= 1, 'all of them wait for one connection')
    for (const each of clients) each.release()
    t.equal((await client.get('/health')).status, 200)
  })
})

t.test('a database that is down is 503, and the service recovers by itself when it is back', async (t) => {
  const { url } = await createTestDatabase(t)
  const proxy = await databaseProxy(t, url)
  const directory = await temporaryDirectory(t)
  const waybill = await Waybill.start({ directory, env: { DATABASE_URL: proxy.url } })
  t.teardown(async () => void (await waybill.stop()))
  t.match(await healthOf(waybill), { code: 200, status: 'healthy', database: 'up' })
  for (let time = 0; time < 2; time++) {
    await proxy.close()
    t.match(await healthOf(waybill), { code: 503, status: 'unhealthy', database: 'down' })
    await proxy.open()
    await untilHealthy(waybill)
    await waybill.request('GET', '/organizations')
  }
})

t.test('a database that hangs is 503 however many ask, and takes no more connections for it', async (t) => {
  const directory = await temporaryDirectory(t)
  const database = await startEmbedded({ directory: join(directory, 'database'), log: createLog('silent') })
  t.teardown(() => database.stop())
  const waybill = await Waybill.start({ directory, env: { DATABASE_URL: database.url } })
  t.teardown(async () => void (await waybill.stop()))
  t.equal((await healthOf(waybill)).code, 200)
  const before = await connectionsOf(database.superuserUrl)

  // First the one that makes the others.
  process.kill(database.pid, 'SIGSTOP')
  const backends = childrenOf(database.pid)
  try {
    for (const pid of backends) process.kill(pid, 'SIGSTOP')
    for (let round = 0; round < 2; round++) {
      const answers = await Promise.all(Array.from({ length: 50 }, () => healthOf(waybill)))
      for (const each of answers) t.match(each, { code: 503, status: 'unhealthy', database: 'down' })
    }
  } finally {
    for (const pid of [...backends, database.pid]) process.kill(pid, 'SIGCONT')
  }
  await untilHealthy(waybill)
  const after = await connectionsOf(database.superuserUrl)
  t.ok(after <= before + 2, `${before} connections before, ${after} after 100 requests`)
})

/** The API's own connections. */
async function connectionsOf(superuserUrl: string): Promise<number> {
  const pool = openPool({ url: superuserUrl, size: 1, applicationName: 'test', log: createLog('silent') })
  const rows = await query(pool, `select from pg_stat_activity where application_name = 'waybill'`)
  await pool.end()
  return rows.length
}

function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => parentOf(pid) === parent)
}

/** The second field after the command, which may hold anything. */
function parentOf(pid: number): number | undefined {
  try {
    const [, parent] = /\) \S (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? []
    return Number(parent)
  } catch {
    return undefined
  }
}
