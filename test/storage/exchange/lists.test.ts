import fc from 'fast-check'
import type { Pool } from 'pg'
import t from 'tap'
import { countRound } from '../../../storage/exchange/count-round.ts'
import { listMessages } from '../../../storage/exchange/messages.ts'
import { STATUSES, type Status } from '../../../storage/exchange/states.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { createTestDatabase } from '../../support/database.ts'
import { newMessage, routesTo } from './fixture.ts'

t.setTimeout(300_000)

/** Among them what could be taken for a wildcard of the counts, and neighbours of each other in any order of texts. */
const PARTIES = ['acme', 'acme-2', 'globex', '*', '=', '=*', '>', '', 'Ünal & Söhne', 'acme%'] as const

interface Wanted {
  readonly status: Status | null
  readonly from: string | null
  readonly to: string | null
  /** Microseconds after the begin. */
  readonly since: number | null
  readonly limit: number
  readonly offset: number
}

const AT = `(timestamptz '2026-01-01 00:00Z' + $4::bigint * interval '1 microsecond')`

/** The page and the total of the counts beside those that come from looking at every message, at the same moment. */
const BOTH = `
with wanted as (
  select id, created_at from message
  where ($1::text is null or status = $1) and ($2::text is null or from_party = $2)
    and ($3::text is null or to_party = $3) and ($4::bigint is null or created_at >= ${AT})
)
select p.total, coalesce(p.ids, '{}') as ids, (select count(*) from wanted) as counted,
  array(select id from wanted order by created_at desc, id desc limit $5 offset $6) as looked_up
from message_page($1, $2, $3, ${AT}, $5, $6) p`

/** Why they differ; null when they agree. */
async function difference(pool: Pool, wanted: Wanted): Promise<string | null> {
  const { status, from, to, since, limit, offset } = wanted
  const [row] = await query<{ total: number; ids: string[]; counted: number; looked_up: string[] }>(
    pool,
    BOTH,
    [status, from, to, since, limit, offset],
  )
  if (row === undefined) return 'no row'
  const about = JSON.stringify(wanted)
  if (row.total !== row.counted) return `${about}: a total of ${row.total} instead of ${row.counted}`
  if (row.ids.join() !== row.looked_up.join()) return `${about}: another page of ${row.ids.length}`
  return null
}

const perhaps = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(value, { nil: null })

function wantedWithin(micros: number, messages: number): fc.Arbitrary<Wanted> {
  return fc.record({
    status: perhaps(fc.constantFrom(...STATUSES)),
    from: perhaps(fc.constantFrom(...PARTIES)),
    to: perhaps(fc.constantFrom(...PARTIES)),
    since: perhaps(fc.integer({ min: -5, max: micros + 5 })),
    limit: fc.integer({ min: 0, max: 60 }),
    offset: fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: messages + 10 })),
  })
}

async function allAgree(pool: Pool, wanted: fc.Arbitrary<Wanted>, numRuns: number): Promise<void> {
  const agree = fc.asyncProperty(wanted, async (each) => {
    const found = await difference(pool, each)
    if (found !== null) throw new Error(found)
  })
  await fc.assert(agree, { numRuns })
}

/**
 * Stores messages of random parties and statuses whose ages are `spread` (an expression of SQL that makes microseconds
 * from the number `i` of a message).
 */
async function store(pool: Pool, count: number, spread: string): Promise<void> {
  await pool.query(
    `insert into message (id, direction, stage, status, source, from_party, to_party, file_name, content_type,
       size_bytes, created_at, settled_at)
     select gen_random_uuid(), 'outbound',
       case when status = 'Received' then 'accepted'
         when status in ('InProgress', 'Retrying', 'AwaitingReceipt') then 'dispatched' else 'settled' end,
       status, 'test', f, t, 'a.edi', 'text/plain', 1, at,
       case when status in ('Received', 'InProgress', 'Retrying', 'AwaitingReceipt') then null else at end
     from (
       select ($2::text[])[1 + floor(least(random(), random(), random()) * cardinality($2::text[]))] as status,
         ($3::text[])[1 + floor(random() * random() * cardinality($3::text[]))] as f,
         ($3::text[])[1 + floor(random() * random() * cardinality($3::text[]))] as t,
         timestamptz '2026-01-01 00:00Z' + (${spread}) * interval '1 microsecond' as at
       from generate_series(1, $1::integer) i
     ) m`,
    [count, [...STATUSES].toReversed(), PARTIES],
  )
}

/** Moves some messages on, as deliveries do. */
function settleSome(pool: Pool, share: number): Promise<unknown> {
  return pool.query(
    `update message set status = 'Delivered', stage = 'settled', settled_at = now()
     where status in ('InProgress', 'Retrying', 'AwaitingReceipt')
       and id in (select id from message where random() < $1)`,
    [share],
  )
}

async function fold(pool: Pool, most: number): Promise<void> {
  await pool.query('select fold_message_changes($1)', [most])
}

async function noted(pool: Pool): Promise<number> {
  const [row] = await query<{ n: number }>(pool, 'select count(*) as n from message_change')
  return row?.n ?? -1
}

t.test('lists agree with the messages before any change is folded', async (t) => {
  const { pool } = await createTestDatabase(t)
  await allAgree(pool, wantedWithin(1000, 0), 20)
  await store(pool, 500, 'i / 3')
  await allAgree(pool, wantedWithin(200, 500), 150)
})

t.test('lists agree while changes are folded little by little, settled, and deleted', async (t) => {
  const { pool } = await createTestDatabase(t)
  for (let step = 0; step < 6; step += 1) {
    await store(pool, 200, 'random() * 3000')
    await settleSome(pool, 0.3)
    await pool.query('delete from message where random() < 0.1')
    await fold(pool, 1 + step * 97)
    await allAgree(pool, wantedWithin(3000, 1000), 40)
  }
  while ((await noted(pool)) > 0) await countRound(pool)
  await allAgree(pool, wantedWithin(3000, 1000), 100)
})

const SPREADS: readonly (readonly [string, string])[] = [
  ['one after the other', 'i'],
  ['the youngest first', '20000 - i'],
  ['in no order', '(i * 7919) % 20000'],
  ['mostly at the same moment', 'case when i % 10 = 0 then i else 7000 end'],
  ['all at the same moment', '9999'],
]

for (const [order, spread] of SPREADS) {
  t.test(`lists agree over many spans of messages that came ${order}`, async (t) => {
    const { pool } = await createTestDatabase(t)
    for (let part = 0; part < 2; part += 1) {
      await store(pool, 10_000, spread)
      await settleSome(pool, 0.2)
      await fold(pool, 3000)
      await allAgree(pool, wantedWithin(20_000, 20_000), 8)
      while ((await noted(pool)) > 0) await countRound(pool)
    }
    const [spans] = await query<{ n: number }>(pool, 'select count(*) as n from message_span')
    t.ok((spans?.n ?? 0) >= (order.endsWith('at the same moment') ? 2 : 4), `${spans?.n} spans`)
    await allAgree(pool, wantedWithin(20_000, 20_000), 30)
    await settleSome(pool, 0.5)
    await allAgree(pool, wantedWithin(20_000, 20_000), 10)
  })
}

t.test('lists agree at every moment while messages come, settle and are folded at once', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  await store(pool, 6000, 'i')
  const parties = ['acme', 'globex', '*']
  const pick = (index: number): string => parties[index % parties.length] ?? ''
  const open = new AbortController()
  const whileOpen = async (act: () => Promise<unknown>): Promise<void> => {
    while (!open.signal.aborted) await act()
  }
  let sent = 0
  const others = [
    whileOpen(() => {
      sent += 1
      return accept(pool, [
        newMessage({ from: pick(sent), to: pick(sent + 1) }),
        newMessage({ to: pick(sent), refusal: 'no' }),
      ])
    }),
    whileOpen(() =>
      pool.query(
        `update message set status = 'Delivered', stage = 'settled', settled_at = now()
         where id in (select id from message where status = 'InProgress' order by created_at limit 3)`,
      ),
    ),
    whileOpen(() => fold(pool, 7)),
    whileOpen(() => fold(pool, 1000)),
    whileOpen(() => countRound(pool).then(() => pool.query('select pg_sleep(0.05)'))),
  ]
  try {
    await allAgree(pool, wantedWithin(6000, 6000), 150)
  } finally {
    open.abort()
    await Promise.all(others)
  }
  t.ok(sent > 0)
})

t.test(
  'a message that changes nothing in the counts notes nothing, and a truncated table has no messages',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    await store(pool, 50, 'i')
    await countRound(pool)
    t.equal(await noted(pool), 0)
    await pool.query(`update message set updated_at = now(), protocols = '{"as2": {}}'`)
    t.equal(await noted(pool), 0)
    await pool.query('truncate message cascade')
    t.same(await listMessages(pool, {}, { limit: 10, offset: 0 }), { messages: [], total: 0 })
    await store(pool, 3, 'i')
    t.equal((await listMessages(pool, {}, { limit: 10, offset: 0 })).total, 3)
  },
)

t.test('a page beyond the last message is empty and still has its total, however far it is', async (t) => {
  const { pool } = await createTestDatabase(t)
  await store(pool, 3, 'i')
  for (const offset of [3, 10_000, Number.MAX_SAFE_INTEGER]) {
    t.same(await listMessages(pool, {}, { limit: 10, offset }), { messages: [], total: 3 })
    t.equal((await listMessages(pool, { from: 'nobody' }, { limit: 10, offset })).total, 0)
  }
})
