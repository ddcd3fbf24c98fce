import t from 'tap'
import { STATUSES } from '../../../storage/exchange/states.ts'
import { migrate } from '../../../storage/postgres/migrate.ts'
import { execute, query, transaction } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { statsRound } from '../../../storage/stats/fold.ts'
import { readStats } from '../../../storage/stats/stats.ts'
import { createTestDatabase } from '../../support/database.ts'
import { reachStatus, storeMessages } from '../../support/stored-messages.ts'
import { newMessage } from '../exchange/fixture.ts'

t.test('a day and a week begin to the microsecond, now', async (t) => {
  const { pool } = await createTestDatabase(t)
  // The time of a transaction stands still.
  await transaction(pool, async (client) => {
    const add = (direction: 'inbound' | 'outbound', age: string) => storeMessages(client, { direction, age })
    await add('outbound', '23:59:59.999999')
    await add('outbound', '24:00')
    await add('inbound', '24:00')
    await add('inbound', '24:00:00.000001')
    await add('outbound', '24:00:40')
    await add('outbound', '6 days 23:59:59.999999')
    await add('inbound', '7 days')
    await add('inbound', '7 days 00:00:00.000001')
    await add('inbound', '7 days 00:00:40')
    const stats = { sent_last_24h: 2, received_last_24h: 1, messages_last_7d: 7 }
    t.match(await readStats(client), stats)
    await client.query('select fold_acceptances(1000)')
    t.match(await readStats(client), stats, 'the same when it is folded')

    const failed = await storeMessages(client, { count: 3, age: '30 days' })
    await reachStatus(client, failed.slice(0, 1), 'Error', '24:00')
    await reachStatus(client, failed.slice(1), 'Error', '24:00:00.000001')
    t.equal((await readStats(client)).failed_last_24h, 1)
  })
})

t.test('every message is counted once, in any minute of the day', async (t) => {
  const { pool } = await createTestDatabase(t)
  await transaction(pool, async (client) => {
    for (let minutes = 0; minutes < 1440; minutes += 7) {
      await storeMessages(client, { direction: 'inbound', age: `${minutes} minutes 13 seconds` })
    }
    const messages = Math.ceil(1440 / 7)
    t.match(await readStats(client), { received_last_24h: messages, messages_last_7d: messages })
  })
})

t.test('messages in Received, InProgress, Retrying and AwaitingReceipt are in flight', async (t) => {
  const { pool } = await createTestDatabase(t)
  t.equal((await readStats(pool)).in_flight_messages, 0)
  for (const [at, status] of STATUSES.entries()) {
    await storeMessages(pool, { status, count: 2 ** at, age: '90 days' })
  }
  const bits = ['Received', 'InProgress', 'Retrying', 'AwaitingReceipt'].map(
    (status) => 2 ** STATUSES.findIndex((each) => each === status),
  )
  t.equal(
    (await readStats(pool)).in_flight_messages,
    bits.reduce((sum, bit) => sum + bit),
  )
  // Not the way that messages come to it, of which the database knows: only how many there are counts here.
  await execute(pool, 'alter table message disable trigger message_move')
  await execute(pool, `update message set stage = 'settled', status = 'Delivered', settled_at = now()`)
  t.equal((await readStats(pool)).in_flight_messages, 0)
})

t.test('accepted messages are counted exactly, whoever accepts and folds meanwhile', async (t) => {
  const { pool } = await createTestDatabase(t)
  const acceptors = Array.from({ length: 5 }, async () => {
    for (let round = 0; round < 20; round++) {
      await accept(pool, [newMessage(), newMessage({ direction: 'inbound' })])
    }
  })
  const accepted = new AbortController()
  const folding = (async () => {
    let folded = 0
    while (!accepted.signal.aborted) {
      await statsRound(pool)
      const { sent_last_24h, received_last_24h } = await readStats(pool)
      t.equal(sent_last_24h, received_last_24h, 'each statement is seen whole or not at all')
      folded += 1
    }
    return folded
  })()
  await Promise.all(acceptors)
  accepted.abort()
  t.ok((await folding) > 0)
  const expected = { sent_last_24h: 100, received_last_24h: 100, messages_last_7d: 200 }
  t.match(await readStats(pool), expected)
  t.equal(await statsRound(pool), 5000)
  t.match(await readStats(pool), expected)
  t.same(await query(pool, 'select from acceptance_note'), [])
})

t.test('a repeat that is not stored is not counted', async (t) => {
  const { pool } = await createTestDatabase(t)
  const duplicateKey = Buffer.alloc(32, 7)
  for (const direction of ['inbound', 'inbound'] as const) {
    await accept(pool, [newMessage({ direction, duplicateKey })])
  }
  t.match(await readStats(pool), { received_last_24h: 1, messages_last_7d: 1 })
})

t.test('messages that are removed are counted no longer', async (t) => {
  const { pool } = await createTestDatabase(t)
  const [first = ''] = await storeMessages(pool, { count: 5, status: 'InProgress' })
  await statsRound(pool)
  await execute(pool, 'delete from message where id = $1', [first])
  t.match(await readStats(pool), { sent_last_24h: 4, messages_last_7d: 4, in_flight_messages: 4 })
  await statsRound(pool)
  t.match(await readStats(pool), { sent_last_24h: 4, messages_last_7d: 4, in_flight_messages: 4 })
  await execute(pool, 'truncate message cascade')
  t.match(await readStats(pool), { sent_last_24h: 0, messages_last_7d: 0, in_flight_messages: 0 })
})

t.test('counts that nobody asks for any more are removed', async (t) => {
  const { pool } = await createTestDatabase(t)
  await storeMessages(pool, { age: '9 days' })
  await storeMessages(pool, { age: '1 minute' })
  await statsRound(pool)
  t.equal((await query(pool, 'select from acceptance_count')).length, 1)
  t.match(await readStats(pool), { sent_last_24h: 1, messages_last_7d: 1 })
})

t.test('a database of an older version is counted when it is migrated', async (t) => {
  const { url, pool, log } = await createTestDatabase(t)
  await execute(
    pool,
    `drop trigger message_accepted on message;
     drop trigger message_removed on message;
     drop trigger message_acceptances_forgotten on message;
     drop function note_acceptances, forget_acceptances, fold_acceptances;
     drop table acceptance_count, acceptance_note;
     drop index history_failed;
     delete from migration where name = '005-stats'`,
  )
  await storeMessages(pool, { count: 3, direction: 'inbound', age: '1 hour' })
  await storeMessages(pool, { count: 4, age: '25 hours' })
  await storeMessages(pool, { count: 5, age: '7 days 1 hour' })
  await migrate({ url, log })
  await storeMessages(pool)
  t.match(await readStats(pool), { sent_last_24h: 1, received_last_24h: 3, messages_last_7d: 8 })
})
