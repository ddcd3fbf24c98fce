import t, { type Test } from 'tap'
import type { Pool } from 'pg'
import { createLog } from '../../../runtime/log.ts'
import { StorageCondition } from '../../../storage/alerts/storage-condition.ts'
import { presenceOf } from '../../../storage/exchange/lone-node.ts'
import { openPool, query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'
import { passTime } from '../exchange/fixture.ts'
import { alertsOf } from './fixture.ts'

t.setTimeout(300_000)

const FULL = 'Payloads cannot be stored: The file system is full'
const FAILURE = { problem: FULL, place: 'the directory /var/lib/waybill/payloads', facts: null }

/** One run of one node. */
function run(pool: Pool, nodeId = 'node-1') {
  const condition = new StorageCondition({ pool, log: createLog('silent'), nodeId, node: nodeId })
  return async (found: 'full' | 'works'): Promise<void> => {
    condition.note(found === 'full' ? FAILURE : null)
    await condition.settled()
  }
}

/** The connection that a node has as long as it runs; the answer ends it. */
async function appear(t: Test, url: string, nodeId: string): Promise<() => Promise<void>> {
  const applicationName = presenceOf(nodeId)
  const pool = openPool({ url, size: 1, applicationName, log: createLog('silent') })
  await query(pool, 'select 1')
  let ended: Promise<void> | null = null
  const end = (): Promise<void> => (ended ??= pool.end())
  t.teardown(end)
  return end
}

/** As a node is killed: its connection is gone, and what it has said stays. */
async function die(pool: Pool, nodeId: string, disappear: () => Promise<void>): Promise<void> {
  await disappear()
  for (;;) {
    const name = presenceOf(nodeId)
    const left = await query(pool, 'select from pg_stat_activity where application_name = $1', [name])
    if (left.length === 0) return
  }
}

t.test('a payload store that stops taking writes is told once, until it works again', async (t) => {
  const { pool } = await createTestDatabase(t)
  const note = run(pool)
  await note('works')
  t.same(await alertsOf(pool), [])
  for (const _ of [1, 2, 3]) await note('full')
  t.match(await alertsOf(pool), [
    {
      severity: 'critical',
      code: 'storage_failed',
      subject_kind: 'storage',
      subject_id: 'payloads',
      subject_name: 'the directory /var/lib/waybill/payloads',
      summary: `${FULL}. Nothing is taken in until they can be stored again`,
      details: /^Reason: Payloads cannot be stored.*\nStorage: the directory .*\nSeen by the node: node-1\n/,
      dedupe_key: 'storage_failed/payloads',
      link_path: '/api/v1/settings',
    },
  ])
  t.equal((await alertsOf(pool)).length, 1)
  await note('works')
  await note('full')
  t.equal((await alertsOf(pool)).length, 2, 'the next failure')
})

t.test('it names the disk that is full, and the room that is left', async (t) => {
  const { pool } = await createTestDatabase(t)
  const condition = new StorageCondition({ pool, log: createLog('silent'), nodeId: 'a', node: 'edi-1' })
  const place = 'the data directory /var/lib/waybill/data'
  const facts = '3 of 400 MiB are free on its disk'
  condition.note({ problem: 'Payloads cannot be stored: The disk is nearly full', place, facts })
  await condition.settled()
  t.match(await alertsOf(pool), [
    { subject_name: place, details: `\nStorage: ${place}\nRoom: ${facts}\nSeen by the node: edi-1\n` },
  ])
})

t.test('a restart while it lasts tells nothing again', async (t) => {
  const { pool } = await createTestDatabase(t)
  await run(pool)('full')
  await run(pool)('full')
  t.equal((await alertsOf(pool)).length, 1)
  await run(pool)('works')
  await run(pool)('full')
  t.equal((await alertsOf(pool)).length, 2, 'what the next run found well is over')
})

t.test('of several nodes that see it one tells it, and each recovers by itself', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const names = ['node-1', 'node-2', 'node-3']
  for (const name of names) await appear(t, url, name)
  const nodes = names.map((nodeId) => run(pool, nodeId))
  await Promise.all(nodes.map((note) => note('full')))
  t.equal((await alertsOf(pool)).length, 1)
  await nodes[0]?.('works')
  await nodes[0]?.('full')
  t.equal((await alertsOf(pool)).length, 1, 'it lasts on the others')
})

t.test('a node that died while it lasted keeps no later failure from being told', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  await appear(t, url, 'node-1')
  const disappear = await appear(t, url, 'node-2')
  const [one, two] = [run(pool, 'node-1'), run(pool, 'node-2')]
  await one('full')
  await two('full')
  t.equal((await alertsOf(pool)).length, 1)
  await die(pool, 'node-2', disappear)
  await one('works')
  await one('full')
  t.equal((await alertsOf(pool)).length, 2, 'however soon it comes')
  await one('works')
  await run(pool, 'node-2')('full')
  t.equal((await alertsOf(pool)).length, 2, 'for itself it lasts, when it was away for a moment only')
})

t.test('what a node has not repeated for 90 seconds is over', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  // As a machine does that lost its power: its connections seem to be there for a while.
  for (const name of ['node-1', 'node-2']) await appear(t, url, name)
  const [one, two] = [run(pool, 'node-1'), run(pool, 'node-2')]
  await one('full')
  await two('full')
  await one('works')
  await passTime(pool, 91)
  await one('full')
  t.equal((await alertsOf(pool)).length, 2)
  await two('works')
  await passTime(pool, 91)
  await one('works')
  t.same(await query(pool, 'select presence from storage_outage'), [], 'and nothing of it is left')
})

t.test('a database that is away is told later', async (t) => {
  const { pool } = await createTestDatabase(t)
  const note = run(pool)
  await note('works')
  await pool.query('alter table storage_outage rename to elsewhere')
  await note('full')
  t.same(await alertsOf(pool), [])
  await pool.query('alter table elsewhere rename to storage_outage')
  await note('full')
  t.equal((await alertsOf(pool)).length, 1)
})
