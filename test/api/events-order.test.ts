import fc from 'fast-check'
import type { Pool, PoolClient } from 'pg'
import t from 'tap'
import { query } from '../../storage/postgres/pool.ts'
import { startApi, type TestApi } from '../support/api.ts'
import type { Teardown } from '../support/database.ts'
import { EventClient } from '../support/event-client.ts'
import { terminate, writeLines } from '../support/history-lines.ts'
import { until } from '../support/processes.ts'
import { storeMessages } from '../support/stored-messages.ts'

/**
 * Ids are handed out when lines are written, and transactions commit in any order, or not at all. The seed is printed;
 * `WAYBILL_PROPERTY_RUNS` and `WAYBILL_PROPERTY_SEED` make other runs.
 */

const RUNS = Number(process.env['WAYBILL_PROPERTY_RUNS'] ?? 100)
const SEED = Number(process.env['WAYBILL_PROPERTY_SEED'] ?? 20_261_121)

t.setTimeout(600_000)

/** A connection that is killed says so; the test knows. */
const ignore = (): void => undefined

/** A transaction that is open until the test ends it, or at the end of the test. */
class OpenTransaction {
  readonly client: PoolClient
  readonly pid: number
  isOver = false

  private constructor(client: PoolClient, pid: number) {
    this.client = client
    this.pid = pid
  }

  static async begin(pool: Pool, begin = 'begin'): Promise<OpenTransaction> {
    const client = await pool.connect()
    client.on('error', ignore)
    await client.query(begin)
    const [row] = await query<{ pid: number }>(client, 'select pg_backend_pid() as pid')
    return new OpenTransaction(client, row?.pid ?? 0)
  }

  async end(how: 'commit' | 'rollback'): Promise<void> {
    if (this.isOver) return
    this.isOver = true
    await this.client.query(how)
    this.client.off('error', ignore)
    this.client.release()
  }

  /** Its connection ends as if its process had been killed. */
  async kill(on: Pool): Promise<void> {
    this.isOver = true
    await terminate(on, this.pid)
    this.client.release(true)
    await until(async () => {
      const left = await query(on, 'select from pg_stat_activity where pid = $1', [this.pid])
      return left.length === 0
    })
  }
}

interface Started {
  readonly api: TestApi
  readonly pool: Pool
  readonly id: string
}

async function start(t: Teardown & { testdir: () => string }): Promise<Started> {
  const api = await startApi(t)
  const { pool } = api.database
  const [id = ''] = await storeMessages(pool)
  return { api, pool, id }
}

for (const ending of ['commit', 'rollback', 'kill'] as const) {
  t.test(
    `6.1 a line with a smaller id that is still open holds the later ones back until its ${ending}`,
    async (t) => {
      const { api, pool, id } = await start(t)
      const [stored = 0] = await writeLines(pool, id)
      const early = await EventClient.open(t, api.base)
      const slow = await OpenTransaction.begin(pool)
      const held = await writeLines(slow.client, id, 2)
      const later = await writeLines(pool, id, 3)
      // These come while ids are open that were handed out before.
      const live = await EventClient.open(t, api.base)
      const replayed = await EventClient.open(t, api.base, { lastEventId: stored })
      const more = await writeLines(pool, id, 2)
      // The tail has looked again since: a new reader waits for that.
      const last = await EventClient.open(t, api.base, { lastEventId: 0 })
      t.strictSame(
        [early, live, replayed, last].map(({ ids }) => ids.filter((each) => each !== stored)),
        [[], [], [], []],
        'nothing later than an open id',
      )
      if (ending === 'kill') await slow.kill(pool)
      else await slow.end(ending)
      const committed = ending === 'commit' ? held : []
      await Promise.all([early, live, replayed, last].map((each) => each.reached(more.at(-1) ?? 0)))
      t.strictSame(early.ids, [...committed, ...later, ...more])
      t.strictSame(live.ids, [...committed, ...more], 'what was committed after it came')
      t.strictSame(replayed.ids, [...committed, ...later, ...more])
      t.strictSame(last.ids, [stored, ...committed, ...later, ...more])
    },
  )
}

t.test('6.1 transactions that write no history hold nothing back, however long they take', async (t) => {
  const { api, pool, id } = await start(t)
  const [stored = 0] = await writeLines(pool, id)
  const others = await storeMessages(pool, { count: 2 })
  const client = await EventClient.open(t, api.base)
  const open: OpenTransaction[] = []
  const during = async (
    statement: string,
    values: readonly unknown[] = [],
    begin = 'begin',
  ): Promise<void> => {
    const transaction = await OpenTransaction.begin(pool, begin)
    open.push(transaction)
    await query(transaction.client, statement, values)
  }
  await during('lock table history in access share mode')
  await during('select count(*) from history', [], 'begin isolation level repeatable read')
  // It has a transaction id, and locks the rows of the history that go with the message.
  await during('delete from message where id = $1', [others[0]])
  await during('update message set updated_at = now() where id = $1', [others[1]])
  await during('create table report (id integer)')
  const added = await writeLines(pool, id, 3)
  await client.reached(added.at(-1) ?? 0)
  t.strictSame(client.ids, added)
  const replayed = await EventClient.open(t, api.base, { lastEventId: stored })
  await replayed.reached(added.at(-1) ?? 0)
  t.strictSame(replayed.ids, added)
  for (const each of open) await each.end('rollback')
})

t.test('6.1 ids are handed out one by one, as the stream relies on', async (t) => {
  const { pool } = await start(t)
  const [sequence] = await query<{ seqcache: number; seqcycle: boolean; seqincrement: number }>(
    pool,
    `select seqcache, seqcycle, seqincrement from pg_sequence where seqrelid = pg_get_serial_sequence('history', 'id')::regclass`,
  )
  t.strictSame(sequence, { seqcache: 1, seqcycle: false, seqincrement: 1 })
})

t.test(
  '6.1 an id whose savepoint was rolled back is skipped, and its transaction still waited for',
  async (t) => {
    const { api, pool, id } = await start(t)
    const client = await EventClient.open(t, api.base)
    const slow = await OpenTransaction.begin(pool)
    await query(slow.client, 'savepoint before')
    await writeLines(slow.client, id, 2)
    await query(slow.client, 'rollback to savepoint before')
    const kept = await writeLines(slow.client, id, 1)
    const later = await writeLines(pool, id, 1)
    const probe = await EventClient.open(t, api.base, { lastEventId: 0 })
    t.strictSame([client.ids, probe.ids], [[], []])
    await slow.end('commit')
    await client.reached(later[0] ?? 0)
    t.strictSame(client.ids, [...kept, ...later])
  },
)

t.test('6.1 a database that has lost its last lines makes every client begin anew', async (t) => {
  const { api, pool, id } = await start(t)
  await writeLines(pool, id, 100)
  const client = await EventClient.open(t, api.base)
  await query(pool, 'delete from history where id > 50')
  await query(pool, `select setval(pg_get_serial_sequence('history', 'id'), 50)`)
  t.equal(await client.over(), 'complete')
  t.equal(client.events.at(-1)?.event, 'reload')
  const again = await EventClient.open(t, api.base)
  const added = await writeLines(pool, id, 2)
  await again.reached(added.at(-1) ?? 0)
  t.strictSame(again.ids, [51, 52])
})

/** One step of a run. Numbers choose a transaction or a place among those there are. */
type Step =
  | { readonly do: 'begin' }
  | { readonly do: 'write'; readonly in: number; readonly count: number }
  | { readonly do: 'end'; readonly in: number; readonly how: 'commit' | 'rollback' | 'kill' }
  | { readonly do: 'write at once'; readonly count: number }
  | { readonly do: 'follow' }
  | { readonly do: 'replay'; readonly back: number }

const count = fc.integer({ min: 1, max: 4 })
const which = fc.nat({ max: 9 })
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: fc.constant<Step>({ do: 'begin' }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('write' as const), in: which, count }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      in: which,
      how: fc.constantFrom('commit' as const, 'commit' as const, 'rollback' as const, 'kill' as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('write at once' as const), count }) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: 'follow' }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('replay' as const), back: fc.nat({ max: 12 }) }) },
)

const MOST_OPEN = 5

interface Expectation {
  readonly client: EventClient
  readonly what: string
  readonly isExpected: (id: number) => boolean
}

/** Runs the steps and answers what each client got and should have got. */
async function run(t: Teardown, { api, pool, id }: Started, steps: readonly Step[]) {
  const open: OpenTransaction[] = []
  const clients: Expectation[] = []
  const storedIds = async (): Promise<number[]> =>
    (await query<{ id: number }>(pool, 'select id from history order by id')).map((row) => row.id)
  const follow = async (): Promise<void> => {
    const before = new Set(await storedIds())
    const client = await EventClient.open(t, api.base)
    clients.push({ client, what: 'live', isExpected: (line) => !before.has(line) })
  }
  await follow()
  for (const each of steps) {
    const transaction = 'in' in each ? open[each.in % Math.max(open.length, 1)] : undefined
    if (each.do === 'begin' && open.length < MOST_OPEN) open.push(await OpenTransaction.begin(pool))
    else if (each.do === 'write' && transaction !== undefined)
      await writeLines(transaction.client, id, each.count)
    else if (each.do === 'write at once') await writeLines(pool, id, each.count)
    else if (each.do === 'follow') await follow()
    else if (each.do === 'end' && transaction !== undefined) {
      open.splice(open.indexOf(transaction), 1)
      await (each.how === 'kill' ? transaction.kill(pool) : transaction.end(each.how))
    } else if (each.do === 'replay') {
      // Ids that a client has: those that the first one got.
      const got = clients[0]?.client.ids ?? []
      const after = got.at(-1 - each.back) ?? got[0] ?? (await storedIds()).at(-1) ?? 0
      if (got.length === 0) continue
      const client = await EventClient.open(t, api.base, { lastEventId: after })
      clients.push({ client, what: `after ${after}`, isExpected: (line) => line > after })
    }
  }
  for (const [at, each] of open.entries()) await each.end(at % 2 === 0 ? 'commit' : 'rollback')
  const [last = 0] = await writeLines(pool, id)
  await Promise.all(clients.map(({ client }) => client.reached(last)))
  const stored = await storedIds()
  for (const { client } of clients) client.close()
  return clients.map(({ client, what, isExpected }) => ({
    what,
    got: client.ids,
    expected: stored.filter(isExpected),
  }))
}

t.test(
  '6.1 however transactions interleave, every client gets each committed line once, in order',
  async (t) => {
    t.comment(`seed ${SEED}, ${RUNS} runs`)
    const api = await start(t)
    const property = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      for (const { what, got, expected } of await run(t, api, steps)) {
        if (JSON.stringify(got) === JSON.stringify(expected)) continue
        throw new Error(`A client (${what}) got ${got.join()} instead of ${expected.join()}`)
      }
    })
    await t.resolves(
      fc.assert(property, {
        numRuns: RUNS,
        seed: SEED,
        endOnFailure: true,
        interruptAfterTimeLimit: 120_000,
        markInterruptAsFailure: false,
      }),
    )
    await until(() => api.api.events.tail.readers === 0)
  },
)

t.test('6.1 eight writers at once, and clients that come and go meanwhile', async (t) => {
  const { api, pool, id } = await start(t)
  const first = await EventClient.open(t, api.base)
  const writers = Array.from({ length: 8 }, async (_, writer) => {
    for (let round = 0; round < 25; round += 1) {
      const transaction = await OpenTransaction.begin(pool)
      await writeLines(transaction.client, id, 1 + ((writer + round) % 3))
      await transaction.end((writer * 7 + round * 3) % 5 === 0 ? 'rollback' : 'commit')
    }
  })
  const resumed = new Set<number>()
  const follower = async (): Promise<void> => {
    let lastEventId: number | undefined
    for (let round = 0; round < 6; round += 1) {
      const client = await EventClient.open(t, api.base, lastEventId === undefined ? {} : { lastEventId })
      const before = lastEventId
      if (round === 0) await until(() => client.ids.length > 0)
      else await until(() => client.ids.length > 0 || first.ids.at(-1) === before)
      client.close()
      const got = client.ids
      for (const each of got) {
        if (resumed.has(each)) throw new Error(`Event ${each} came twice`)
        resumed.add(each)
      }
      lastEventId = got.at(-1) ?? lastEventId
    }
    const [end = 0] = await Promise.all(writers).then(() => writeLines(pool, id))
    const client = await EventClient.open(t, api.base, lastEventId === undefined ? {} : { lastEventId })
    await client.reached(end)
    for (const each of client.ids) resumed.add(each)
  }
  await Promise.all([follower(), ...writers])
  const stored = (await query<{ id: number }>(pool, 'select id from history order by id')).map(
    (row) => row.id,
  )
  await first.reached(stored.at(-1) ?? 0)
  t.strictSame(first.ids, stored)
  const [begin = 0] = resumed
  t.strictSame(
    [...resumed],
    stored.filter((each) => each >= begin),
    'a client that comes again with Last-Event-ID misses nothing',
  )
})
