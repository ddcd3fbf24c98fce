import fc from 'fast-check'
import type { Pool } from 'pg'
import t from 'tap'
import { AuditLog } from '../../../storage/audit/audit-log.ts'
import { createTestDatabase } from '../../support/database.ts'
import { cutOffAt, headOf, KEY, newEvent, OPS, tamper, verifyAndNote, type HeadRow } from './fixture.ts'

/** Specification 4.3, POST /audit/verify: any single tampering with any log is found, and named by the right event. */

const RUNS = Number(process.env['WAYBILL_PROPERTY_RUNS'] ?? 60)
const SEED = Number(process.env['WAYBILL_PROPERTY_SEED'] ?? 20_260_302)

t.setTimeout(600_000)

/** A log: how many events were written before there was a key, and the numbers that were left out before each event. */
const plan = fc.record({
  unchained: fc.integer({ min: 0, max: 3 }),
  gaps: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 7 }),
  texts: fc.array(fc.string({ unit: 'binary', maxLength: 20 }), { minLength: 10, maxLength: 10 }),
})

const FORGED_HASHES = ["''", "repeat('0', 64)", "encode(sha256(random()::text::bytea), 'hex')"]

const CHANGES = [
  'v = v + 1',
  "at = at - interval '1 hour'",
  "actor = actor || '.'",
  "action = 'verified'",
  "kind = 'x'",
  "record_id = coalesce(record_id, '') || '0'",
  "record_name = record_name || ' '",
  `changes = '[{"field":"x"}]'`,
  "prev_hash = repeat('f', 64)",
  ...FORGED_HASHES.map((forged) => `hash = ${forged}`),
]

const place = fc.nat({ max: 99 })
const tampering = fc.oneof(
  fc.record({ kind: fc.constant('change' as const), at: place, set: fc.constantFrom(...CHANGES) }),
  fc.record({ kind: fc.constant('remove' as const), at: place }),
  fc.record({ kind: fc.constant('swap' as const), at: place, with: place }),
  fc.record({
    kind: fc.constant('insert' as const),
    at: place,
    hash: fc.constantFrom('hash', ...FORGED_HASHES),
  }),
  fc.record({ kind: fc.constant('cut off' as const), verified: place, keep: place }),
)

interface Written {
  readonly unchained: readonly number[]
  readonly chained: readonly number[]
  /** The head beside the log after each event of the chain. */
  readonly heads: readonly HeadRow[]
}

type Tampered =
  /** The event that is the first that does not fit any more. */
  | { readonly broken: number }
  /** Nothing was to be done, such as to change places with itself. */
  | null

t.test('4.3 any single change, removal, exchange, insertion or truncation is found', async (t) => {
  const { pool } = await createTestDatabase(t)
  const log = new AuditLog({ pool, key: KEY })
  t.comment(`seed ${SEED}`)
  let tampered = 0
  const property = fc.asyncProperty(plan, tampering, async (how, what) => {
    await emptyLog(pool)
    const written = await writeLog(pool, how)
    const before = await log.verify()
    if (!before.ok) throw new Error(`The log does not verify untouched: ${JSON.stringify(before)}`)
    const done = await apply(pool, log, written, what)
    if (done === null) return
    tampered += 1
    const { ok, first_broken_id: broken, reason } = await log.verify()
    if (!ok && broken === done.broken && reason !== undefined) return
    throw new Error(
      `Expected ${done.broken} to be broken, got ${broken} (${reason}); ${JSON.stringify(written)}`,
    )
  })
  await t.resolves(fc.assert(property, { numRuns: RUNS, seed: SEED, endOnFailure: true }))
  t.ok(tampered > RUNS / 2, `${tampered} of ${RUNS} logs were tampered with`)
})

async function emptyLog(pool: Pool): Promise<void> {
  await tamper(
    pool,
    { text: 'delete from audit_event' },
    { text: "update audit_head set first_id = 0, last_id = 0, hash = '', mac = ''" },
    { text: "update audit_witness set head_id = 0, head_hash = '', mac = ''" },
  )
}

async function writeLog(
  pool: Pool,
  how: typeof plan extends fc.Arbitrary<infer P> ? P : never,
): Promise<Written> {
  const { unchained, gaps, texts } = how
  const heads: HeadRow[] = []
  const write = async (key: string | null, gap: number, at: number) => {
    await pool.query("select nextval('audit_event_id') from generate_series(1, $1)", [gap])
    const event = newEvent(`event-${at}-${texts[at] ?? ''}`, { recordId: at % 3 === 0 ? null : at })
    await new AuditLog({ pool, key }).recordAlone(OPS, event)
  }
  for (let at = 0; at < unchained; at += 1) await write(null, 1, at)
  for (const [at, gap] of gaps.entries()) {
    await write(KEY, gap, unchained + at)
    heads.push(await headOf(pool))
  }
  const { rows } = await pool.query<{ id: string }>('select id from audit_event order by id')
  const ids = rows.map(({ id }) => Number(id))
  return { unchained: ids.slice(0, unchained), chained: ids.slice(unchained), heads }
}

async function apply(
  pool: Pool,
  log: AuditLog,
  written: Written,
  what: typeof tampering extends fc.Arbitrary<infer W> ? W : never,
): Promise<Tampered> {
  const { unchained, chained, heads } = written
  const all = [...unchained, ...chained]
  const first = chained[0] ?? 0
  const pick = (at: number): number => all[at % all.length] ?? 0
  /** What was written before there was a key is sealed as a whole by the first event of the chain. */
  const named = (id: number): Tampered => ({ broken: unchained.includes(id) ? first : id })
  switch (what.kind) {
    case 'change': {
      const id = pick(what.at)
      if (unchained.includes(id) && what.set.startsWith('hash')) {
        if (what.set === "hash = ''") return null
        await tamper(pool, { text: `update audit_event set ${what.set} where id = ${id}` })
        return { broken: id }
      }
      await tamper(pool, { text: `update audit_event set ${what.set} where id = ${id}` })
      return named(id)
    }
    case 'remove': {
      const id = pick(what.at)
      await tamper(pool, { text: `delete from audit_event where id = ${id}` })
      return named(unchained.includes(id) ? id : (chained[chained.indexOf(id) + 1] ?? id))
    }
    case 'swap': {
      const [one, other] = [pick(what.at), pick(what.with)].toSorted((a, b) => a - b)
      if (one === undefined || other === undefined || one === other) return null
      await tamper(pool, {
        text: `update audit_event e set v = o.v, at = o.at, actor = o.actor, record_id = o.record_id,
          record_name = o.record_name, changes = o.changes, prev_hash = o.prev_hash, hash = o.hash
          from audit_event o where (e.id, o.id) in ((${one}, ${other}), (${other}, ${one}))`,
      })
      return { broken: unchained.includes(other) ? first : one }
    }
    case 'insert': {
      const last = all.at(-1) ?? 0
      const free = Array.from({ length: 10 }, (_, at) => last - 8 + at).filter(
        (id) => id > 0 && !all.includes(id),
      )
      const id = free[what.at % free.length] ?? 0
      await tamper(pool, {
        text: `insert into audit_event (id, at, actor, action, kind, record_id, record_name, changes, prev_hash, hash)
          select ${id}, at, actor, action, kind, record_id, record_name, changes, prev_hash, ${what.hash}
          from audit_event where id = ${pick(what.at)}`,
      })
      const { rows } = await pool.query<{ hash: string }>(`select hash from audit_event where id = ${id}`)
      const isSealed = rows[0]?.hash === '' && id < first && unchained.length > 0
      return { broken: isSealed ? first : id }
    }
    case 'cut off': {
      const verified = what.verified % chained.length
      const keep = what.keep % (verified + 1)
      // The best prepared intruder: back to a log that once was the whole log, with the head it had.
      const kept = heads[keep - 1] ?? { first_id: 0, last_id: unchained.at(-1) ?? 0, hash: '', mac: '' }
      const witness = { ...heads[verified] }
      await verifyAsOf(pool, log, witness)
      await cutOffAt(pool, kept)
      if (keep === 0) await tamper(pool, { text: 'update audit_head set last_id = 0' })
      return { broken: chained[verified] ?? 0 }
    }
  }
}

/** The last verification was when the log had this head. */
async function verifyAsOf(pool: Pool, log: AuditLog, head: Partial<HeadRow>): Promise<void> {
  await pool.query('create table kept as select * from audit_event')
  const present = await headOf(pool)
  await cutOffAt(pool, { ...present, ...head })
  const found = await verifyAndNote(log)
  if (!found.ok) throw new Error(`The log did not verify then: ${JSON.stringify(found)}`)
  await tamper(
    pool,
    { text: 'delete from audit_event' },
    { text: 'insert into audit_event select * from kept' },
    {
      text: 'update audit_head set last_id = $1, hash = $2, mac = $3',
      values: [present.last_id, present.hash, present.mac],
    },
  )
  await pool.query('drop table kept')
}
