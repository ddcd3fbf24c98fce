import t from 'tap'
import { SYSTEM_CALLER } from '../../../runtime/endpoint/endpoint.ts'
import { AuditLog } from '../../../storage/audit/audit-log.ts'
import { query, transaction } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'
import {
  cutOffAt,
  headOf,
  idsOf,
  KEY,
  newEvent,
  OPS,
  OTHER_KEY,
  tamper,
  verifyAndNote,
  write,
} from './fixture.ts'

/** Specification 4.3, POST /audit/verify, and 2.15: the chain of the audit log, at the database. */

t.setTimeout(240_000)

t.test('2.15 a log with a key is chained from its first event to its last', async (t) => {
  const { pool } = await createTestDatabase(t)
  const ids = await write(pool, KEY, 5)
  const events = await query<{ prev_hash: string; hash: string }>(
    pool,
    'select prev_hash, hash from audit_event order by id',
  )
  t.equal(events[0]?.prev_hash, '')
  for (const [at, { hash }] of events.entries()) {
    t.match(hash, /^[0-9a-f]{64}$/)
    if (at > 0) t.equal(events[at]?.prev_hash, events[at - 1]?.hash)
  }
  t.same(await new AuditLog({ pool, key: KEY }).verify(), {
    ok: true,
    events_checked: 5,
    chained: 5,
    unchained: 0,
    head_id: ids.at(-1),
    head_hash: events.at(-1)?.hash,
  })
})

t.test('4.3 a log without a key and without hashes verifies, as far as that goes', async (t) => {
  const { pool } = await createTestDatabase(t)
  const empty = { ok: true, events_checked: 0, chained: 0, unchained: 0, head_id: null, head_hash: '' }
  t.same(await new AuditLog({ pool, key: null }).verify(), empty)
  t.same(await new AuditLog({ pool, key: KEY }).verify(), empty)
  await write(pool, null, 3)
  const three = { ...empty, events_checked: 3, unchained: 3 }
  t.same(await new AuditLog({ pool, key: null }).verify(), three)
  t.same(await new AuditLog({ pool, key: KEY }).verify(), three)
  const hashes = await query(pool, "select from audit_event where prev_hash = '' and hash = ''")
  t.equal(hashes.length, 3, '2.15 the hashes are empty')
})

t.test('4.3 AUDIT_KEY_REQUIRED for a log with hashed events without a key', async (t) => {
  const { pool } = await createTestDatabase(t)
  await write(pool, KEY, 1)
  await t.rejects(new AuditLog({ pool, key: null }).verify(), { code: 'AUDIT_KEY_REQUIRED' })
  await tamper(pool, { text: "update audit_event set hash = '', prev_hash = ''" })
  await t.rejects(
    new AuditLog({ pool, key: null }).verify(),
    { code: 'AUDIT_KEY_REQUIRED' },
    'also where somebody has removed the hashes',
  )
})

t.test('a key that is set later seals what was written before', async (t) => {
  const { pool } = await createTestDatabase(t)
  const before = await write(pool, null, 3)
  const [first = 0] = await write(pool, KEY, 2)
  const log = new AuditLog({ pool, key: KEY })
  t.match(await log.verify(), { ok: true, events_checked: 5, chained: 2, unchained: 3 })
  const changed = `update audit_event set actor = 'nobody' where id = ${before[1] ?? 0}`
  await tamper(pool, { text: changed })
  t.match(await log.verify(), { ok: false, first_broken_id: first, events_checked: 5 })
  await tamper(pool, { text: changed.replace('nobody', OPS.name) })
  t.match(await log.verify(), { ok: true })
  await tamper(pool, { text: 'delete from audit_event where id = $1', values: [before[0]] })
  t.match(await log.verify(), { ok: false, first_broken_id: first })
})

t.test('a key that is set while others write without it seals exactly what they have written', async (t) => {
  const { pool } = await createTestDatabase(t)
  const log = new AuditLog({ pool, key: KEY })
  const without = new AuditLog({ pool, key: null })
  const began = Promise.withResolvers<unknown>()
  let first: Promise<void> | undefined
  await transaction(pool, async (client) => {
    await without.recordOn(client, OPS, newEvent('under way'))
    first = log.recordAlone(OPS, newEvent('the first of the chain'))
    first.then(began.resolve, began.reject)
    await waitForLock(client)
  })
  await began.promise
  t.match(await log.verify(), { ok: true, chained: 1, unchained: 1 })

  async function waitForLock(client: Parameters<typeof query>[0]): Promise<void> {
    for (;;) {
      const waiting = await query(
        client,
        `select from pg_locks where not granted and relation = 'audit_event'::regclass
         and database = (select oid from pg_database where datname = current_database())`,
      )
      if (waiting.length > 0) return
    }
  }
})

t.test('an event without a hash after the chain began does not verify', async (t) => {
  const { pool } = await createTestDatabase(t)
  await write(pool, KEY, 2)
  const [unchained = 0] = await write(pool, null, 1)
  await write(pool, KEY, 2)
  const log = new AuditLog({ pool, key: KEY })
  t.match(await log.verify(), {
    ok: false,
    first_broken_id: unchained,
    events_checked: 5,
    chained: 4,
    unchained: 1,
    reason: /no hash/,
  })
})

t.test('a key that was changed: the log does not verify with either', async (t) => {
  const { pool } = await createTestDatabase(t)
  const [first = 0] = await write(pool, KEY, 2)
  t.equal(await new AuditLog({ pool, key: KEY }).keyWarning(), null)
  t.match(await new AuditLog({ pool, key: OTHER_KEY }).keyWarning(), /AUDIT_KEY is not the key/)
  t.match(await new AuditLog({ pool, key: null }).keyWarning(), /AUDIT_KEY is not set/)
  const [other = 0] = await write(pool, OTHER_KEY, 2)
  t.match(await new AuditLog({ pool, key: OTHER_KEY }).verify(), {
    ok: false,
    first_broken_id: first,
    reason: /another AUDIT_KEY/,
  })
  t.match(await new AuditLog({ pool, key: KEY }).verify(), {
    ok: false,
    first_broken_id: other,
    reason: /another AUDIT_KEY/,
  })
})

t.test('4.3 a changed event is found, whichever of its fields was changed', async (t) => {
  const { pool } = await createTestDatabase(t)
  const ids = await write(pool, KEY, 3)
  const log = new AuditLog({ pool, key: KEY })
  for (const [field, value] of [
    ['v', '2'],
    ['at', "at + interval '1 millisecond'"],
    ['actor', "'sa:other'"],
    ['action', "'deleted'"],
    ['kind', "'partner'"],
    ['record_id', "'2'"],
    ['record_id', 'null'],
    ['record_name', "''"],
    ['changes', "'[]'"],
    ['changes', "(changes::text || ' ')::json"],
    ['prev_hash', "''"],
    ['prev_hash', "repeat('0', 64)"],
    ['hash', "''"],
    ['hash', "repeat('0', 64)"],
    ['hash', 'upper(hash)'],
  ] as const) {
    await pool.query('create table kept as select * from audit_event')
    for (const id of ids) {
      if (field === 'prev_hash' && value === "''" && id === ids[0]) continue
      await tamper(pool, { text: `update audit_event set ${field} = ${value} where id = ${id}` })
      t.match(await log.verify(), { ok: false, first_broken_id: id }, `${field} of ${id} is ${value}`)
      await tamper(
        pool,
        { text: 'delete from audit_event' },
        { text: 'insert into audit_event select * from kept' },
      )
    }
    await pool.query('drop table kept')
    t.match(await log.verify(), { ok: true })
  }
})

t.test('4.3 a removed event is found: the first, one between, the last and all', async (t) => {
  for (const [removed, found] of [
    [[0], 1],
    [[1], 2],
    [[1, 2], 3],
    [[3], 3],
    [[0, 1, 2, 3], 3],
  ] as const) {
    const { pool } = await createTestDatabase(t)
    const ids = await write(pool, KEY, 4)
    const values = [removed.map((at) => ids[at])]
    await tamper(pool, { text: 'delete from audit_event where id = any ($1::bigint[])', values })
    const found4 = await new AuditLog({ pool, key: KEY }).verify()
    t.match(found4, { ok: false, first_broken_id: ids[found] }, `removed: ${removed.join()}`)
    t.equal(found4.events_checked, 4 - removed.length)
  }
})

t.test('4.3 two events that change places are found', async (t) => {
  const { pool } = await createTestDatabase(t)
  const [, second = 0, third = 0] = await write(pool, KEY, 4)
  await tamper(pool, {
    text: `update audit_event e set actor = o.actor, at = o.at, record_name = o.record_name, changes = o.changes,
      prev_hash = o.prev_hash, hash = o.hash
      from audit_event o where (e.id = ${second} and o.id = ${third}) or (e.id = ${third} and o.id = ${second})`,
  })
  t.match(await new AuditLog({ pool, key: KEY }).verify(), { ok: false, first_broken_id: second })
})

t.test(
  '4.3 an inserted event is found: before, between and after the others, and without a hash',
  async (t) => {
    for (const [inserted, hash] of [
      [1, 'e.hash'],
      [1, "''"],
      [4, 'e.hash'],
      [4, "''"],
      [9, 'e.hash'],
      [9, "''"],
    ] as const) {
      const { pool } = await createTestDatabase(t)
      // The first event of a chain takes two numbers.
      await pool.query("select setval('audit_event_id', 1)")
      await write(pool, KEY, 1)
      await pool.query("select setval('audit_event_id', 4)")
      await write(pool, KEY, 1)
      t.same(await idsOf(pool), [3, 5])
      await tamper(pool, {
        text: `insert into audit_event (id, at, actor, action, kind, record_id, record_name, changes, prev_hash, hash)
          select $1, at, actor, action, kind, record_id, record_name, changes, prev_hash, ${hash}
          from audit_event e order by id limit 1`,
        values: [inserted],
      })
      t.match(await new AuditLog({ pool, key: KEY }).verify(), { ok: false, first_broken_id: inserted })
    }
  },
)

t.test('4.3 truncation at the end is found against the head that the last verification kept', async (t) => {
  const { pool } = await createTestDatabase(t)
  const log = new AuditLog({ pool, key: KEY })
  await write(pool, KEY, 2)
  const early = await headOf(pool)
  const ids = await write(pool, KEY, 3)
  t.match(await verifyAndNote(log), { ok: true, head_id: ids.at(-1) })
  await cutOffAt(pool, early)
  t.match(await log.verify(), {
    ok: false,
    first_broken_id: ids.at(-1),
    reason: /cut off/,
    events_checked: 2,
  })
  t.match(await verifyAndNote(log), { ok: false }, 'and is found again')
  await write(pool, KEY, 10)
  t.match(await log.verify(), { ok: false, first_broken_id: ids.at(-1) }, 'also when the log has grown since')
})

t.test(
  '4.3 truncation at the end is found against the head beside the log, also without a verification',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    const log = new AuditLog({ pool, key: KEY })
    const ids = await write(pool, KEY, 4)
    await tamper(pool, { text: 'delete from audit_event where id > $1', values: [ids[1]] })
    t.match(await log.verify(), { ok: false, first_broken_id: ids[3] })
    await tamper(pool, {
      text: 'update audit_head set last_id = e.id, hash = e.hash from audit_event e where e.id = $1',
      values: [ids[1]],
    })
    t.match(await log.verify(), { ok: false, first_broken_id: ids[1], reason: /without the AUDIT_KEY/ })
  },
)

t.test('a head or a witness that somebody without the key has written is found', async (t) => {
  const { pool } = await createTestDatabase(t)
  const log = new AuditLog({ pool, key: KEY })
  const ids = await write(pool, KEY, 3)
  await verifyAndNote(log)
  for (const text of [
    "update audit_head set mac = ''",
    "update audit_head set hash = repeat('0', 64)",
    'update audit_head set last_id = last_id + 1',
    'update audit_head set first_id = first_id + 1',
    "update audit_witness set mac = ''",
    "update audit_witness set head_hash = ''",
    'update audit_witness set head_id = head_id + 1',
  ]) {
    await pool.query('create table kept_head as select * from audit_head')
    await pool.query('create table kept_witness as select * from audit_witness')
    await tamper(pool, { text })
    t.match(await log.verify(), { ok: false }, text)
    await tamper(
      pool,
      { text: 'delete from audit_head' },
      { text: 'delete from audit_witness' },
      { text: 'insert into audit_head select * from kept_head' },
      { text: 'insert into audit_witness select * from kept_witness' },
    )
    await pool.query('drop table kept_head, kept_witness')
    t.match(await log.verify(), { ok: true, head_id: (ids.at(-1) ?? 0) + 1 })
  }
})

t.test('a verification is an event itself, and what it found stands in it', async (t) => {
  const { pool } = await createTestDatabase(t)
  const log = new AuditLog({ pool, key: KEY })
  const [only] = await write(pool, KEY, 1)
  const found = await verifyAndNote(log)
  const { items } = await log.list({ action: 'verified' }, { limit: 10, offset: 0 })
  t.match(items, [{ kind: 'audit-log', record_id: null, actor: OPS.name, record_gone: false }])
  t.same(
    items[0]?.changes,
    Object.entries(found).map(([field, value]) => ({ field, new: value })),
  )
  const [witness] = await query(pool, 'select head_id, head_hash from audit_witness')
  t.same(witness, { head_id: only, head_hash: found.head_hash })
  t.match(await log.verify(), { ok: true, events_checked: 2 })
  await log.recordAlone(SYSTEM_CALLER, newEvent('one more'))
  t.match(await log.verify(), { ok: true, events_checked: 3 })
})

t.test('a log of many batches verifies, and one changed event in the last of them is found', async (t) => {
  const { pool } = await createTestDatabase(t)
  const log = new AuditLog({ pool, key: KEY })
  await transaction(pool, async (client) => {
    for (let at = 0; at < 1_501; at += 1) await log.recordOn(client, OPS, newEvent(`event-${at}`))
  })
  t.match(await log.verify(), { ok: true, events_checked: 1_501 })
  const ids = await idsOf(pool)
  await tamper(pool, { text: "update audit_event set actor = 'x' where id = $1", values: [ids[1_500]] })
  t.match(await log.verify(), { ok: false, first_broken_id: ids[1_500] })
})

t.test('a head or a witness that somebody has removed is a log that does not verify', async (t) => {
  const { pool } = await createTestDatabase(t)
  await write(pool, KEY, 2)
  const log = new AuditLog({ pool, key: KEY })
  for (const [table, reason] of [
    ['audit_witness', /head of the last verification was removed/],
    ['audit_head', /head beside the log was removed/],
  ] as const) {
    await tamper(pool, { text: `delete from ${table}` })
    const found = await log.verify()
    t.match(found, { ok: false, first_broken_id: Number, reason })
    await log.noteVerification(SYSTEM_CALLER, found)
  }
})

t.test('a verification with another key than the chain has leaves the log as it is', async (t) => {
  const { pool } = await createTestDatabase(t)
  const [first] = await write(pool, KEY, 2)
  const other = new AuditLog({ pool, key: OTHER_KEY })
  const found = await other.verify()
  t.match(found, { ok: false, first_broken_id: first })
  await other.noteVerification(SYSTEM_CALLER, found)
  t.match(await new AuditLog({ pool, key: KEY }).verify(), { ok: true, events_checked: 2 })
})

t.test('a command with the right key writes also after a server with another key did', async (t) => {
  const { pool } = await createTestDatabase(t)
  await write(pool, KEY, 1)
  await write(pool, OTHER_KEY, 1)
  const command = new AuditLog({ pool, key: KEY, keepsChain: true })
  await command.recordAlone(OPS, newEvent('in an emergency'))
  t.match(await command.verify(), { ok: false, events_checked: 3 })
})
