import t from 'tap'
import { startApi } from '../support/api.ts'
import { tamper } from '../storage/audit/fixture.ts'

/** Specification 4.3, POST /audit/verify, over HTTP. */

t.setTimeout(240_000)

const KEY = 'a key of the audit chain'

t.test('4.3 POST /audit/verify: ok, events_checked, chained, unchained, head_id, head_hash', async (t) => {
  const { client } = await startApi(t, { auditKey: KEY })
  await client.create('/organizations', { name: 'acme' })
  const { status, data } = await client.post('/audit/verify')
  t.equal(status, 200)
  const { events } = (await client.get('/audit?kind=organization')).data as {
    events: Record<string, unknown>[]
  }
  t.same(data, {
    ok: true,
    events_checked: 1,
    chained: 1,
    unchained: 0,
    head_id: events[0]?.['id'],
    head_hash: events[0]?.['hash'],
  })
  const noted = (await client.get('/audit?limit=1')).data['events']
  t.match(noted, [{ action: 'verified', kind: 'audit-log', actor: 'developer', record_id: null }])
  t.match((await client.post('/audit/verify')).data, { ok: true, events_checked: 2, chained: 2 })
})

t.test('4.3 POST /audit/verify: first_broken_id and reason of a log that does not verify', async (t) => {
  const { client, database } = await startApi(t, { auditKey: KEY })
  for (const name of ['one', 'two', 'three']) await client.create('/organizations', { name })
  const { events } = (await client.get('/audit')).data as { events: { id: number }[] }
  const [, second, first] = events.map(({ id }) => id)
  await tamper(database.pool, { text: 'delete from audit_event where id = $1', values: [first] })
  const { status, data } = await client.post('/audit/verify')
  t.equal(status, 200)
  t.match(data, { ok: false, events_checked: 2, chained: 2, first_broken_id: second, reason: String })
  t.match((await client.get('/audit?limit=1')).data['events'], [
    { action: 'verified', changes: [{ field: 'ok', new: false }] },
  ])
})

t.test('4.3 POST /audit/verify: a log cut off behind the last verification is found', async (t) => {
  const { client, database } = await startApi(t, { auditKey: KEY })
  await client.create('/organizations', { name: 'acme' })
  await client.create('/organizations', { name: 'globex' })
  const verified = await client.post('/audit/verify')
  t.match(verified.data, { ok: true, events_checked: 2 })
  const head = Number(verified.data['head_id'])
  await tamper(
    database.pool,
    { text: 'delete from audit_event where id >= $1', values: [head] },
    {
      text: 'update audit_head set last_id = e.id, hash = e.hash from (select * from audit_event order by id desc limit 1) e',
    },
  )
  t.match((await client.post('/audit/verify')).data, { ok: false, first_broken_id: head, reason: /cut off/ })
})

t.test('4.3 POST /audit/verify: a log without a key', async (t) => {
  const { client } = await startApi(t)
  await client.create('/organizations', { name: 'acme' })
  const { status, data } = await client.post('/audit/verify')
  const rest = { chained: 0, unchained: 1, head_id: null, head_hash: '' }
  t.same({ status, data }, { status: 200, data: { ok: true, events_checked: 1, ...rest } })
})

t.test('7 AUDIT_KEY_REQUIRED: 409 for a log with hashed events when the process has no key', async (t) => {
  const { client, database } = await startApi(t)
  await tamper(database.pool, {
    text: `insert into audit_event (actor, action, kind, record_name, changes, hash)
      values ('system', 'updated', 'settings', 'settings', '[]', repeat('a', 64))`,
  })
  const { status, error } = await client.post('/audit/verify')
  t.match({ status, error }, { status: 409, error: { code: 'AUDIT_KEY_REQUIRED', message: /AUDIT_KEY/ } })
  t.match((await client.get('/audit')).data, { total: 1 }, 'and is no event')
})

t.test('verifications and changes at the same time: every verification holds', async (t) => {
  const { client } = await startApi(t, { auditKey: KEY })
  const answers = await Promise.all(
    Array.from({ length: 24 }, (_, at) =>
      at % 2 === 0
        ? client.post('/audit/verify')
        : client.post('/organizations', { name: `organization-${at}` }),
    ),
  )
  for (const [at, { status, data }] of answers.entries()) {
    t.equal(status, at % 2 === 0 ? 200 : 201)
    if (at % 2 === 0) t.match(data, { ok: true })
  }
  t.match((await client.post('/audit/verify')).data, { ok: true, events_checked: 24, chained: 24 })
})
