import t, { type Test } from 'tap'
import { createLog } from '../../../runtime/log.ts'
import { Lease, LeaseLost } from '../../../storage/exchange/leases.ts'
import { openPool, query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'
import { until } from '../../support/processes.ts'

t.setTimeout(300_000)
const log = createLog('silent')

async function begin(t: Test) {
  const { url, pool } = await createTestDatabase(t)
  const open = (nodeId: string, seconds = 30) => {
    const own = openPool({ url, size: 2, applicationName: `lease ${nodeId}`, log })
    const lease = new Lease({ pool: own, log, name: 'poller/source', nodeId, seconds })
    t.teardown(async () => {
      if (!own.ended) {
        await lease.release()
        await own.end()
      }
    })
    return { lease, pool: own }
  }
  return { pool, open }
}

void t.test('one of several holds a lease, and the next gets it as soon as it is given back', async (t) => {
  const { open } = await begin(t)
  const [one, other] = [open('one').lease, open('other').lease]
  t.notOk(one.isHeld)
  t.ok(await one.acquire())
  t.ok(one.isHeld)
  t.notOk(await other.acquire())
  t.notOk(other.isHeld)
  await one.release()
  t.notOk(one.isHeld)
  t.ok(await other.acquire())
  t.notOk(await one.acquire())
})

void t.test('of many that ask at the same moment one gets it', async (t) => {
  const { open } = await begin(t)
  const nodes = Array.from({ length: 8 }, (_, index) => open(`node-${index}`).lease)
  const got = await Promise.all(nodes.map((lease) => lease.acquire()))
  t.equal(got.filter(Boolean).length, 1)
})

void t.test(
  'a lease that is renewed outlasts its time; one whose holder is gone is taken over',
  async (t) => {
    const { open, pool } = await begin(t)
    const one = open('one', 15)
    const other = open('other', 15).lease
    t.ok(await one.lease.acquire())
    const fencing = async () =>
      (await query<{ fencing: number; until: Date }>(pool, 'select fencing, until from lease'))[0]
    const first = await fencing()
    await until(async () => ((await fencing())?.until ?? 0) > (first?.until ?? 0))
    t.notOk(await other.acquire(), 'it was renewed')
    await one.pool.end()
    await until(() => other.acquire())
    t.equal((await fencing())?.fencing, (first?.fencing ?? 0) + 1)
    await until(() => !one.lease.isHeld)
  },
)

void t.test('one that lost its lease without noticing commits nothing', async (t) => {
  const { open, pool } = await begin(t)
  const { lease } = open('one')
  await lease.acquire()
  await query(pool, `update lease set owner = 'other', fencing = fencing + 1`)
  t.ok(lease.isHeld, 'it cannot know yet')
  await t.rejects(
    lease.commit((client) => query(client, `insert into organization (name) values ('acme')`)),
    LeaseLost,
  )
  t.same(await query(pool, 'select name from organization'), [])
  t.notOk(lease.isHeld)
  t.throws(() => lease.assertHeld(), LeaseLost)
})

void t.test('who would take a lease over waits for what is being committed under it', async (t) => {
  const { open, pool } = await begin(t)
  const one = open('one').lease
  await one.acquire()
  const order: string[] = []
  const mayEnd = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const committing = one.commit(async (client) => {
    await query(client, `insert into organization (name) values ('acme')`)
    begun.resolve()
    await mayEnd.promise
    order.push('committed')
  })
  await begun.promise
  // The same node's next start does not wait for the time of its predecessor's lease.
  const taking = open('one')
    .lease.acquire()
    .then(() => order.push('taken'))
  await until(
    async () =>
      (
        await query(
          pool,
          `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%into lease%'`,
        )
      ).length > 0,
  )
  mayEnd.resolve()
  await Promise.all([committing, taking])
  t.same(order, ['committed', 'taken'])
  t.same(await query(pool, 'select name from organization'), [{ name: 'acme' }])
  await t.rejects(
    one.commit(async () => undefined),
    LeaseLost,
  )
})
