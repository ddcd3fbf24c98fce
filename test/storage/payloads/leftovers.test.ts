import { randomBytes, randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Pool } from 'pg'
import { execute, query } from '../../../storage/postgres/pool.ts'
import { LeftoverSweep } from '../../../storage/payloads/leftovers.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { moveBatch } from '../../../storage/payloads/mover.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { createTestDatabase } from '../../support/database.ts'
import { temporaryDirectory } from '../../support/processes.ts'
import { newMessage } from '../exchange/fixture.ts'
import { collected } from './store-contract.ts'

t.setTimeout(300_000)

/** What was stored and belongs to no message is removed: after a day of the database's clock, and never before. */

const BETWEEN_PASSES_MS = 3_600_000

/** One pass through all that is stored; answers its rounds. */
async function pass(sweep: LeftoverSweep): Promise<number> {
  let rounds = 1
  while ((await sweep.round()) < BETWEEN_PASSES_MS) rounds += 1
  return rounds
}

const dayPasses = (pool: Pool) =>
  execute(pool, `update payload_leftover set found_at = found_at - interval '1 day'`)

const noted = async (pool: Pool) =>
  (await query<{ name: string }>(pool, 'select name from payload_leftover order by name')).map(
    ({ name }) => name,
  )

async function begin(t: Parameters<typeof createTestDatabase>[0]) {
  const { pool, log } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  return { pool, log, directory, store, sweep: new LeftoverSweep({ pool, store, log }) }
}

t.test('payloads of a message that was never committed are removed after a day', async (t) => {
  const { pool, store, sweep } = await begin(t)
  const orphan = randomUUID()
  await store.put(orphan, 'unpacked', randomBytes(1000))
  await store.put(orphan, 'received', randomBytes(1000))
  await pass(sweep)
  await pass(sweep)
  t.same(await collected(store.messageIds()), [orphan], 'not as long as it may still be committed')
  t.same(await noted(pool), [orphan])
  await dayPasses(pool)
  await pass(sweep)
  t.same(await collected(store.messageIds()), [])
  t.same(await noted(pool), [])
})

t.test('payloads of messages stay, also of one that is committed after it was noted', async (t) => {
  const { pool, store, sweep } = await begin(t)
  const [moved, large] = [newMessage(), newMessage({ stages: [] })]
  await store.put(large.id, 'unpacked', randomBytes(1000))
  await pass(sweep)
  t.same(await noted(pool), [large.id])
  await accept(pool, [moved, large])
  t.equal(await moveBatch(pool, store, { limit: 10 }), 1)
  await dayPasses(pool)
  await pass(sweep)
  t.same((await collected(store.messageIds())).toSorted(), [moved.id, large.id].toSorted())
  await execute(pool, `update payload_leftover set seen_at = seen_at - interval '8 days'`)
  await pass(sweep)
  t.same(await noted(pool), [], 'a note that is of no use is removed')
})

t.test('a draft that was cut off is removed after a day', async (t) => {
  const { pool, directory, store, sweep } = await begin(t)
  await writeFile(join(directory, '.incoming', randomUUID()), 'part')
  await pass(sweep)
  t.equal((await collected(store.unfinished())).length, 1)
  await dayPasses(pool)
  await pass(sweep)
  t.same(await collected(store.unfinished()), [])
})

t.test('a round is bounded, and one pass finds all', async (t) => {
  const { pool, log, store, sweep } = await begin(t)
  const items = Array.from({ length: 1_100 }, () => ({
    messageId: randomUUID(),
    stage: 'headers' as const,
    bytes: Buffer.of(1),
  }))
  await store.putMany(items)
  t.ok((await sweep.round()) > 0)
  t.equal((await noted(pool)).length, 500)
  t.ok((await pass(sweep)) >= 3)
  t.equal((await noted(pool)).length, 1_100)
  await dayPasses(pool)
  await Promise.all([pass(sweep), pass(new LeftoverSweep({ pool, store, log }))])
  t.same(await collected(store.messageIds()), [], 'also with several nodes at once')
})

t.test('a store that cannot be listed is told of, and looked through when it can', async (t) => {
  const { pool, directory } = await begin(t)
  const store = LocalStore.at(join(directory, 'not-there'))
  const told: unknown[] = []
  const log = { warn: (facts: unknown) => void told.push(facts) }
  const sweep = new LeftoverSweep({ pool, store, log })
  t.ok((await sweep.round()) > 10_000, 'after a while')
  t.match(told, [{ reason: /cannot be listed: The directory does not exist/ }])
  await LocalStore.prepare(store.directory)
  const orphan = randomUUID()
  await store.put(orphan, 'headers', Buffer.from('bytes'))
  await pass(sweep)
  t.same(await noted(pool), [orphan])
})
