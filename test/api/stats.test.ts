import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { execute } from '../../storage/postgres/pool.ts'
import { startApi } from '../support/api.ts'
import { reachStatus, storeMessages } from '../support/stored-messages.ts'

t.test('GET /stats of a new installation', async (t) => {
  const { client } = await startApi(t)
  const { status, data } = await client.get('/stats')
  t.equal(status, 200)
  t.same(data, {
    messages_last_24h: 0,
    messages_last_7d: 0,
    sent_last_24h: 0,
    received_last_24h: 0,
    in_flight_messages: 0,
    failed_last_24h: 0,
    system_status: 'Healthy',
    plugin_status: {},
  })
  t.equal((await client.post('/stats')).status, 405)
})

t.test('messages are counted by when they were accepted and by their direction', async (t) => {
  const { client, database } = await startApi(t)
  await storeMessages(database.pool, { direction: 'outbound', count: 3 })
  await storeMessages(database.pool, { direction: 'outbound', count: 4, age: '23 hours' })
  await storeMessages(database.pool, { direction: 'inbound', count: 5, age: '23 hours' })
  await storeMessages(database.pool, { direction: 'inbound', count: 6, age: '25 hours' })
  await storeMessages(database.pool, { direction: 'outbound', count: 7, age: '6 days' })
  await storeMessages(database.pool, { direction: 'outbound', count: 8, age: '8 days' })
  t.match((await client.get('/stats')).data, {
    messages_last_24h: 12,
    sent_last_24h: 7,
    received_last_24h: 5,
    messages_last_7d: 25,
  })
})

t.test('failed_last_24h', async (t) => {
  const { client, database } = await startApi(t)
  const { pool } = database
  const failed = async (): Promise<unknown> => (await client.get('/stats')).data['failed_last_24h']

  t.test('counts messages that reached Error or Stalled', async (t) => {
    await reachStatus(pool, await storeMessages(pool, { status: 'Error' }), 'Error')
    await reachStatus(pool, await storeMessages(pool, { status: 'Stalled' }), 'Stalled')
    t.equal(await failed(), 2)
  })

  t.test('counts by when they reached it, not by when they were accepted', async (t) => {
    await reachStatus(pool, await storeMessages(pool, { status: 'Error', age: '20 days' }), 'Error')
    t.equal(await failed(), 3)
    await reachStatus(
      pool,
      await storeMessages(pool, { status: 'Error', age: '26 hours' }),
      'Error',
      '25 hours',
    )
    t.equal(await failed(), 3)
  })

  t.test('counts a message once, also one that was redelivered since', async (t) => {
    const ids = await storeMessages(pool, { status: 'Delivered' })
    await reachStatus(pool, ids, 'Stalled', '3 hours')
    await reachStatus(pool, ids, 'Error', '2 hours')
    await reachStatus(pool, ids, 'Error', '1 hour')
    await reachStatus(pool, ids, 'Delivered')
    t.equal(await failed(), 4)
  })

  t.test('does not count what was refused or not routed', async (t) => {
    for (const status of ['Refused', 'NotRouted', 'Retrying'] as const) {
      await reachStatus(pool, await storeMessages(pool, { status }), status)
    }
    t.equal(await failed(), 4)
  })
})

t.test('system_status is Degraded when more than 10 messages failed in the last 24 hours', async (t) => {
  const { client, database } = await startApi(t)
  const { pool } = database
  const fail = async (count: number, age: string): Promise<void> =>
    reachStatus(pool, await storeMessages(pool, { count, status: 'Error' }), 'Error', age)
  await fail(10, '1 hour')
  await fail(50, '25 hours')
  t.match((await client.get('/stats')).data, { failed_last_24h: 10, system_status: 'Healthy' })
  await fail(1, '0')
  t.match((await client.get('/stats')).data, { failed_last_24h: 11, system_status: 'Degraded' })
  await execute(pool, `update history set created_at = created_at - interval '1 day'`)
  t.match((await client.get('/stats')).data, { failed_last_24h: 0, system_status: 'Healthy' })
})

t.test('in_flight_messages follows the statuses', async (t) => {
  const { client, database } = await startApi(t)
  for (const status of [
    'Received',
    'InProgress',
    'Retrying',
    'AwaitingReceipt',
    'Error',
    'Stalled',
  ] as const) {
    await storeMessages(database.pool, { status, age: '40 days' })
  }
  t.equal((await client.get('/stats')).data['in_flight_messages'], 4)
})

t.test('plugin_status is keyed by <type>:<name>', async (t) => {
  const { client, database, supervisor } = await startApi(t)
  const directory = join(t.testdir(), 'out')
  mkdirSync(directory)
  const create = (name: string, changes: object = {}) =>
    client.create('/plugins/configs?type=file-writer', { name, base_directory: directory, ...changes })
  const act = (name: string, action: string) => client.post(`/services/file-writer/${name}/${action}`)
  const plugins = async (): Promise<unknown> => (await client.get('/stats')).data['plugin_status']

  t.test('a configured instance is Enabled, a disabled one is left out', async (t) => {
    await create('writer')
    await create('off', { enabled: false })
    await client.create('/plugins/configs?type=as2-sender', { name: 'sender' })
    t.same(await plugins(), { 'as2-sender:sender': 'Enabled', 'file-writer:writer': 'Enabled' })
  })

  t.test('one that runs here is Running, and then Stopped', async (t) => {
    await act('writer', 'start')
    t.match(await plugins(), { 'file-writer:writer': 'Running' })
    await act('writer', 'restart')
    t.match(await plugins(), { 'file-writer:writer': 'Running' })
    await act('writer', 'stop')
    t.match(await plugins(), { 'file-writer:writer': 'Stopped', 'as2-sender:sender': 'Enabled' })
  })

  t.test('one that could not start is in Error', async (t) => {
    await create('nowhere', { base_directory: '/dev/null/nowhere' })
    t.match(await plugins(), { 'file-writer:nowhere': 'Enabled' })
    t.equal((await act('nowhere', 'start')).status, 500)
    t.match(await plugins(), { 'file-writer:nowhere': 'Error' })
  })

  t.test('one that another node configured is Enabled', async (t) => {
    await execute(
      database.pool,
      `insert into plugin_configuration (name, type, role, enabled, settings, secrets)
       values ('elsewhere', 'file-writer', 'target', true, '{}', ''), ('idle', 'file-writer', 'target', false, '{}', ''),
         ('fax', 'not-installed', 'target', true, '{}', '')`,
    )
    t.equal(supervisor.find('file-writer', 'elsewhere'), null)
    t.same(Object.keys((await plugins()) as object), [
      'as2-sender:sender',
      'file-writer:elsewhere',
      'file-writer:nowhere',
      'file-writer:writer',
    ])
    t.match(await plugins(), { 'file-writer:elsewhere': 'Enabled' })
  })

  t.test('one that is disabled or deleted is gone', async (t) => {
    await client.put('/plugins/configs/file-writer/writer', { enabled: false })
    await client.delete('/plugins/configs/as2-sender/sender')
    t.same(await plugins(), { 'file-writer:elsewhere': 'Enabled', 'file-writer:nowhere': 'Error' })
  })
})
