import fc from 'fast-check'
import t from 'tap'
import { AuditLog } from '../../../storage/audit/audit-log.ts'
import { OrganizationEntity } from '../../../storage/parties/party.ts'
import { openPool, query, transaction } from '../../../storage/postgres/pool.ts'
import { ENTITIES } from '../../../storage/records/entities.ts'
import { createTestDatabase, openTestDatabase } from '../../support/database.ts'
import { idsOf, KEY, newEvent, OPS, OTHER_KEY, write } from './fixture.ts'

/** Specification 2.15: how an event is written, and that it stays as it was written. */

t.setTimeout(240_000)

const ALL = { limit: 500, offset: 0 }

t.test('2.15 the log is read-only: the database refuses to change or remove an event', async (t) => {
  const { pool } = await createTestDatabase(t)
  for (const key of [null, KEY]) {
    await write(pool, key, 1)
    for (const statement of [
      "update audit_event set actor = 'nobody'",
      'update audit_event set id = id where false',
      'delete from audit_event',
      'truncate audit_event',
      'truncate audit_event cascade',
      `merge into audit_event e using (select) s on true when matched then delete`,
      'delete from audit_head',
      'truncate audit_head',
      'update audit_head set last_id = last_id',
      'delete from audit_witness',
      'truncate audit_witness',
      'update audit_witness set head_id = head_id - 1',
    ]) {
      await t.rejects(pool.query(statement), { code: '42501', message: /only grows/ }, statement)
    }
  }
  t.equal((await idsOf(pool)).length, 2)
  t.match(await new AuditLog({ pool, key: KEY }).verify(), { ok: true })
})

t.test('2.15 an event is written in the transaction of its change: both or none', async (t) => {
  const { orm, pool } = await openTestDatabase(t, ENTITIES)
  for (const key of [null, KEY]) {
    const log = new AuditLog({ pool, key })
    const before = (await idsOf(pool)).length
    const failing = orm.em.fork().transactional(async (em) => {
      em.create(OrganizationEntity, { name: 'acme', display_name: '' })
      await log.record(em, OPS, newEvent('acme'))
      throw new Error('the last step fails')
    })
    await t.rejects(failing, { message: 'the last step fails' })
    await t.rejects(
      transaction(pool, async (client) => {
        await log.recordOn(client, OPS, newEvent('acme'))
        throw new Error('the last step fails')
      }),
    )
    t.equal((await idsOf(pool)).length, before)
    t.equal((await query(pool, 'select from organization')).length, 0)
    await orm.em.fork().transactional(async (em) => {
      em.create(OrganizationEntity, { name: 'acme', display_name: '' })
      await log.record(em, OPS, newEvent('acme'))
    })
    t.equal((await idsOf(pool)).length, before + 1)
    t.equal((await query(pool, 'delete from organization returning id')).length, 1)
  }
  t.match(
    await new AuditLog({ pool, key: KEY }).verify(),
    { ok: true },
    'numbers of the chain may be missing',
  )
})

t.test('2.15 the event says who did what to which record, whatever the texts are', async (t) => {
  const { orm, pool } = await openTestDatabase(t, ENTITIES)
  const log = new AuditLog({ pool, key: KEY })
  const text = fc.string({ unit: 'binary', maxLength: 30 })
  const hostile = fc.oneof(
    text,
    fc.constantFrom('?', '??', '$1', "'", '\\', '\\?', '{}', '🏭', "E'\\x27'", '\n'),
  )
  const property = fc.asyncProperty(
    hostile,
    hostile,
    hostile,
    fc.boolean(),
    async (actor, name, value, viaOrm) => {
      const caller = { name: actor, credential: 'identity-token' } as const
      const event = newEvent(name, {
        recordId: `file-writer:${name}`,
        kind: 'plugin-configuration',
        changes: [{ field: value, old: value, new: { deep: [value] } }],
      })
      if (viaOrm) await orm.em.fork().transactional((em) => log.record(em, caller, event))
      else await log.recordAlone(caller, event)
      const { items } = await log.list({}, { limit: 1, offset: 0 })
      const stored = (what: string): string => what.replaceAll('\0', '\u{fffd}')
      const [found] = items
      if (found === undefined) throw new Error('No event')
      const { actor: by, record_name: of, record_id: id, changes, action, kind } = found
      const shown = JSON.stringify([by, of, id, changes, action, kind])
      const expected = JSON.stringify([
        stored(actor),
        stored(name),
        stored(`file-writer:${name}`),
        event.changes,
        'updated',
        'plugin-configuration',
      ])
      if (shown !== expected) throw new Error(`${shown} is not ${expected}`)
    },
  )
  await t.resolves(fc.assert(property, { numRuns: 100, seed: 20_260_302 }))
  t.match(await log.verify(), { ok: true })
})

t.test('2.15 concurrent writers through several pools give one chain, in the order of the ids', async (t) => {
  const { pool, url, log: lines } = await createTestDatabase(t)
  const nodes = Array.from({ length: 3 }, (_, at) => {
    const own = openPool({ url, size: 4, applicationName: `node ${at}`, log: lines })
    t.teardown(() => own.end())
    return { own, log: new AuditLog({ pool: own, key: KEY }) }
  })
  const writers = nodes.flatMap((node) => Array.from({ length: 4 }, () => node))
  const each = 15
  await Promise.all(
    writers.map(async ({ own, log }, writer) => {
      for (let at = 0; at < each; at += 1) {
        const event = newEvent(`writer-${writer}-${at}`)
        // Some write two events in a transaction, and some fail after they have written.
        const work = transaction(own, async (client) => {
          await log.recordOn(client, OPS, event)
          if (at % 5 === 1) await log.recordOn(client, OPS, event)
          if (at % 5 === 2) throw new Error('rolled back')
        })
        await work.catch((thrown: unknown) => {
          if (!(thrown instanceof Error) || thrown.message !== 'rolled back') throw thrown
        })
      }
    }),
  )
  const count = writers.length * ((each / 5) * 5)
  const found = await new AuditLog({ pool, key: KEY }).verify()
  t.match(found, { ok: true, events_checked: count, chained: count, unchained: 0 })
  const links = await query(
    pool,
    `select from (select prev_hash, lag(hash, 1, '') over (order by id) as previous from audit_event) e
     where prev_hash <> previous`,
  )
  t.equal(links.length, 0)
})

t.test('2.15 a log without a key makes no writer wait for another', async (t) => {
  const { pool } = await createTestDatabase(t)
  const log = new AuditLog({ pool, key: null })
  await transaction(pool, async (client) => {
    await log.recordOn(client, OPS, newEvent('first, committed last'))
    await log.recordAlone(OPS, newEvent('second'))
  })
  const { items } = await log.list({}, ALL)
  t.same(
    items.map(({ record_name }) => record_name),
    ['second', 'first, committed last'],
  )
})

t.test('a command without the key of the chain, or with another, writes nothing', async (t) => {
  const { orm, pool } = await openTestDatabase(t, ENTITIES)
  const keepsChain = true
  const command = (key: string | null) => new AuditLog({ pool, key, keepsChain })
  const [none, right, other] = [command(null), command(KEY), command(OTHER_KEY)]
  await none.recordAlone(OPS, newEvent('the log is not chained'))
  await right.recordAlone(OPS, newEvent('the first of the chain'))
  const refusal = { name: 'OperatorError', message: /^AUDIT_KEY is not/ }
  for (const log of [none, other]) {
    await t.rejects(log.recordAlone(OPS, newEvent('one more')), refusal)
    const viaOrm = orm.em.fork().transactional((em) => log.record(em, OPS, newEvent('one more')))
    await t.rejects(viaOrm, refusal)
  }
  await right.recordAlone(OPS, newEvent('one more'))
  t.match(await right.verify(), { ok: true, events_checked: 3 })
})
