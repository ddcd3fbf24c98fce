import t from 'tap'
import type { Pool } from 'pg'
import { transaction } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { claim, takeBack } from '../../../storage/sql/claim.ts'
import { failOverdue, stallWaiting } from '../../../storage/sql/maintain.ts'
import { redeliver } from '../../../storage/sql/redeliver.ts'
import { redispatch } from '../../../storage/sql/redispatch.ts'
import { settle } from '../../../storage/sql/settle.ts'
import { takeReceipt } from '../../../storage/receipts/expected-receipts.ts'
import { createTestDatabase } from '../../support/database.ts'
import { claimFor, newMessage, passTime, receiptFor, routesTo, settlementOf } from '../exchange/fixture.ts'
import { alertsOf, attempt, notifier, rowsOf } from './fixture.ts'

t.setTimeout(300_000)

const FAILED = { state: 'failed', error: 'The server answered with 403 Forbidden' } as const

async function site(t: Parameters<typeof createTestDatabase>[0]): Promise<Pool> {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  await notifier(pool, 'hook')
  return pool
}

const codesOf = async (pool: Pool) => (await alertsOf(pool)).map(({ code }) => code)

t.test('a delivery that fails is an alert that names what failed, where and why', async (t) => {
  const pool = await site(t)
  const message = newMessage()
  await accept(pool, [message])
  await attempt(pool, FAILED)
  const [alert] = await alertsOf(pool)
  t.match(alert, {
    severity: 'critical',
    code: 'delivery_failed',
    subject_kind: 'message',
    subject_id: message.id,
    subject_name: 'invoice.edi',
    summary: 'The delivery of invoice.edi from acme to globex by a has failed',
    dedupe_key: 'delivery_failed/a/globex',
    link_path: `/api/v1/messages/${message.id}`,
    test: false,
  })
  t.match(alert?.details, /^Reason: The server answered with 403 Forbidden\nTarget: a\nAttempts: 1\n/)
  t.match(await rowsOf(pool), [{ code: 'delivery_failed', outcome: 'queued', attempts: 0, last_error: null }])
})

t.test('an alert is committed with its event or not at all', async (t) => {
  const pool = await site(t)
  await accept(pool, [newMessage()])
  const [delivery] = await claim(pool, claimFor('a'))
  if (delivery === undefined) throw new Error('Nothing was claimed')
  await t.rejects(
    transaction(pool, async (client) => {
      await settle(client, [settlementOf(delivery, FAILED)])
      throw new Error('the transaction ends here')
    }),
  )
  t.same(await alertsOf(pool), [])
  t.same(await rowsOf(pool), [])
  await settle(pool, [settlementOf(delivery, FAILED)])
  // Whoever lost the claim, on whichever node, changes and tells nothing.
  await settle(pool, [settlementOf(delivery, FAILED)])
  t.same(await codesOf(pool), ['delivery_failed'])
})

t.test('what goes on, ends well or is begun anew is no alert', async (t) => {
  const pool = await site(t)
  const message = newMessage()
  await accept(pool, [message])
  await attempt(pool, { state: 'queued', error: 'stopped' })
  await attempt(pool, { state: 'retrying', error: 'no answer', delaySeconds: 0 })
  await attempt(pool, { state: 'delivered' })
  const [delivery] = (await pool.query<{ id: number }>('select id from delivery')).rows
  await redeliver(pool, { messageId: message.id, deliveryId: String(delivery?.id) }, 'ops')
  await redispatch(pool, message.id, 'ops')
  await attempt(pool, { state: 'awaiting_ack', deadlineSeconds: 60 })
  await takeReceipt(pool, receiptFor(message.id))
  t.same(await alertsOf(pool), [])
})

t.test('a delivery that fails again after a redelivery is told again', async (t) => {
  const pool = await site(t)
  const message = newMessage()
  await accept(pool, [message])
  await attempt(pool, FAILED)
  const [delivery] = (await pool.query<{ id: number }>('select id from delivery')).rows
  await redeliver(pool, { messageId: message.id, deliveryId: String(delivery?.id) }, 'ops')
  await attempt(pool, FAILED)
  t.same(await codesOf(pool), ['delivery_failed', 'delivery_failed'])
})

t.test('6.2: delivery_stalled is raised when a delivery is marked stalled', async (t) => {
  const pool = await site(t)
  await accept(pool, [newMessage()])
  await passTime(pool, 86_400)
  t.equal(await stallWaiting(pool, 5), 1)
  t.match(await alertsOf(pool), [
    {
      severity: 'critical',
      code: 'delivery_stalled',
      summary: 'The delivery of invoice.edi from acme to globex has stalled: a does not take it',
      dedupe_key: 'delivery_stalled/a/globex',
    },
  ])
  t.equal(await stallWaiting(pool, 5), 0)
  t.equal((await alertsOf(pool)).length, 1)
})

t.test('a receipt that does not come in time is receipt_overdue, and not delivery_failed too', async (t) => {
  const pool = await site(t)
  await accept(pool, [newMessage()])
  await attempt(pool, { state: 'awaiting_ack', deadlineSeconds: 60 })
  await passTime(pool, 120)
  t.equal(await failOverdue(pool), 1)
  t.match(await alertsOf(pool), [
    {
      severity: 'critical',
      code: 'receipt_overdue',
      summary: 'No receipt came in time for invoice.edi from acme to globex, sent by a',
      dedupe_key: 'receipt_overdue/a/globex',
    },
  ])
  t.equal((await alertsOf(pool)).length, 1)
})

t.test('a receipt that refuses the message is delivery_failed', async (t) => {
  const pool = await site(t)
  const message = newMessage()
  await accept(pool, [message])
  await attempt(pool, { state: 'awaiting_ack', deadlineSeconds: 60 })
  await takeReceipt(pool, receiptFor(message.id, 'The partner refused the message'))
  t.match(await alertsOf(pool), [{ code: 'delivery_failed', details: /^Reason: The partner refused/ }])
  t.equal((await alertsOf(pool)).length, 1)
})

t.test('what cuts its instance off again and again is told when it is given up', async (t) => {
  const pool = await site(t)
  await accept(pool, [newMessage()])
  for (const time of [1, 2, 3, 4, 5]) {
    t.same(await alertsOf(pool), [], `before the ${time}. time`)
    t.equal((await claim(pool, { ...claimFor('a'), owner: 'node/a/run/1' })).length, 1)
    await takeBack(pool, 'node/a/', 'run')
  }
  t.match(await alertsOf(pool), [{ code: 'delivery_failed', details: /cut off/ }])
})

t.test('a message that its source refuses is a warning, with the key of its sender', async (t) => {
  const pool = await site(t)
  await pool.query(`insert into partner (name) values ('globex')`)
  const refused = (from: string) =>
    newMessage({ direction: 'inbound', from, to: 'acme', refusal: 'The signature does not verify' })
  await accept(pool, [refused('globex'), refused('mallory'), refused('trudy')])
  const alerts = await alertsOf(pool)
  t.equal(alerts.length, 3)
  const byKey = Map.groupBy(alerts, ({ dedupe_key }) => dedupe_key)
  t.match(byKey.get('message_refused/source/globex'), [
    {
      severity: 'warning',
      code: 'message_refused',
      summary: 'source has refused invoice.edi from globex to acme',
      details: /^Reason: The signature does not verify\nSource: source\n/,
    },
  ])
  t.equal(byKey.get('message_refused/source/unknown')?.length, 2, 'strangers share one key')
})

t.test(
  'what a hostile name or reason looks like neither fails the event nor leaves its bounds',
  async (t) => {
    const pool = await site(t)
    const name = `${'\u202e'.repeat(5)}a\r\nb\u0007${'𝄞ü'.repeat(3_000)}`
    const message = newMessage({ fileName: name, from: 'ö'.repeat(128), to: `x\n${'y'.repeat(120)}` })
    await accept(pool, [message])
    await attempt(pool, { state: 'failed', error: 'line\nline '.repeat(20_000) })
    const [alert] = await alertsOf(pool)
    t.ok(Array.from(alert?.summary ?? '').length <= 200)
    t.ok(Array.from(alert?.details ?? '').length <= 2_000)
    t.match(alert?.summary, /^The delivery of a b 𝄞ü/)
    t.notMatch(alert?.summary, /[\p{Cc}\u202e]/u)
    t.notMatch(alert?.subject_name, /[\p{Cc}\u202e]/u)
  },
)

t.test(
  'names of any length leave the sentence whole, and names that differ at their end apart',
  async (t) => {
    const pool = await site(t)
    const target = 't'.repeat(64)
    const file = `${'f'.repeat(200)}.edi`
    const from = `${'o'.repeat(58)}-north`
    const to = `${'p'.repeat(58)}-south`
    const told = async (): Promise<string> => (await alertsOf(pool)).at(-1)?.summary ?? ''
    const made = (changes = {}) => accept(pool, [newMessage({ fileName: file, from, to, ...changes })])
    await pool.query(
      `insert into plugin_configuration (name, type, role, enabled, settings, secrets) values ($1, 'test', 'target', true, '{}', '')`,
      [target],
    )
    await pool.query(`update route set target_plugin = $1`, [target])
    await made()
    await attempt(pool, FAILED, target)
    t.match(await told(), /^The delivery of f+….+ from o+…o*-north to p+…p*-south by t+…t+ has failed$/)
    t.equal((await told()).length, 200)
    await made()
    await attempt(pool, { state: 'awaiting_ack', deadlineSeconds: 60 }, target)
    await passTime(pool, 120)
    await failOverdue(pool)
    t.match(
      await told(),
      /^No receipt came in time for f+….+ from o+…o*-north to p+…p*-south, sent by t+…t+$/,
    )
    await made()
    await passTime(pool, 86_400)
    await stallWaiting(pool, 5)
    t.match(
      await told(),
      /^The delivery of f+….+ from o+…o*-north to p+…p*-south has stalled: t+…t+ does not take it$/,
    )
    await made({ refusal: 'no' })
    t.match(await told(), /^source has refused f+…f*\.edi from o{58}-north to p{58}-south$/)
    t.equal((await told()).length, 200)
  },
)

t.test('each enabled notifier whose filters let an alert through has a row, started or not', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  await notifier(pool, 'older-record')
  await notifier(pool, 'warnings', { min_severity: 'warning', codes: [], format: 'slack' })
  await notifier(pool, 'critical', { min_severity: 'critical', codes: [] })
  await notifier(pool, 'refusals', { min_severity: 'info', codes: ['message_refused', 'plugin_failed'] })
  await notifier(pool, 'failures', { min_severity: 'info', codes: ['delivery_failed'] })
  await notifier(pool, 'disabled', {}, false)
  await accept(pool, [newMessage({ refusal: 'no' })])
  await accept(pool, [newMessage()])
  await attempt(pool, FAILED)
  const { rows } = await pool.query<{ code: string; told: string[]; formats: string[] }>(
    `select code, array_agg(instance order by instance) as told, array_agg(distinct format) as formats
     from notification group by code order by code`,
  )
  t.same(rows, [
    {
      code: 'delivery_failed',
      told: ['critical', 'failures', 'older-record', 'warnings'],
      formats: ['generic', 'slack'],
    },
    {
      code: 'message_refused',
      told: ['older-record', 'refusals', 'warnings'],
      formats: ['generic', 'slack'],
    },
  ])
})

t.test('without a notifier an alert stays, and one that comes later is not told of it', async (t) => {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'a')
  await accept(pool, [newMessage()])
  await attempt(pool, FAILED)
  await notifier(pool, 'hook')
  t.same(await codesOf(pool), ['delivery_failed'])
  t.same(await rowsOf(pool), [])
})
