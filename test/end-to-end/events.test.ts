import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createLog } from '../../runtime/log.ts'
import { openPool, query } from '../../storage/postgres/pool.ts'
import { createEmptyDatabase } from '../support/database.ts'
import { databaseProxy } from '../support/database-proxy.ts'
import { EventClient } from '../support/event-client.ts'
import { writeLines } from '../support/history-lines.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { storeMessages } from '../support/stored-messages.ts'
import { Waybill } from '../support/waybill.ts'

t.setTimeout(600_000)

const MESSAGES = 30

const SECRET_KEY = randomUUID()

/** Nodes of one directory share their payload store. */
async function startNode(t: Test, directory: string, name: string, url: string): Promise<Waybill> {
  const waybill = await Waybill.start({
    directory,
    env: { DATABASE_URL: url, DATA_DIRECTORY: join(directory, name), WAYBILL_NODE: name, SECRET_KEY },
  })
  t.teardown(async () => waybill.stop())
  return waybill
}

function poolOf(t: Test, url: string) {
  const pool = openPool({ url, size: 4, applicationName: 'waybill test', log: createLog('silent') })
  t.teardown(() => pool.end())
  return pool
}

async function storedIds(t: Test, url: string): Promise<number[]> {
  const pool = poolOf(t, url)
  return (await query<{ id: number }>(pool, 'select id from history order by id')).map(({ id }) => id)
}

/** An organization, a partner and a writer that works. */
async function populate(t: Test, node: Waybill): Promise<void> {
  await node.request('POST', '/organizations', { name: 'acme' })
  await node.request('POST', '/partners', { name: 'globex' })
  const base_directory = await temporaryDirectory(t)
  await node.request('POST', '/plugins/configs?type=file-writer', { name: 'writer', base_directory })
  await node.request('POST', '/services/file-writer/writer/start', {})
}

async function send(node: Waybill): Promise<string> {
  const parts = { from: 'acme', to: 'globex', target: 'writer', file: new Blob(['x']) }
  return (await node.upload<{ id: string }>('/messages', parts)).id
}

t.test('6.1 a stream of any node has what every node writes, once, in one order', async (t) => {
  const url = await createEmptyDatabase(t)
  const directory = await temporaryDirectory(t)
  const first = await startNode(t, directory, 'first', url)
  const second = await startNode(t, directory, 'second', url)
  await populate(t, first)
  const clients = await Promise.all(
    [first, second, first, second].map((node) => EventClient.open(t, `${node.url}/api/v1`)),
  )
  const sending = [first, second].map(async (node) => {
    const ids: string[] = []
    for (let sent = 0; sent < MESSAGES; sent += 1) ids.push(await send(node))
    return ids
  })
  // Clients that wander from node to node miss nothing.
  const wandered: number[] = []
  const wander = async (): Promise<void> => {
    for (let round = 0; round < 8; round += 1) {
      const node = round % 2 === 0 ? first : second
      const last = wandered.at(-1)
      const asking = last === undefined ? { lastEventId: 0 } : { lastEventId: last }
      const client = await EventClient.open(t, `${node.url}/api/v1`, asking)
      await until(() => client.ids.length > 0 || clients[0]?.ids.at(-1) === last)
      client.close()
      wandered.push(...client.ids)
    }
  }
  const [sent] = await Promise.all([Promise.all(sending), wander()])
  const statusOf = async (id: string): Promise<string> =>
    (await first.request<{ status: string }>('GET', `/messages/${id}`)).status
  for (const id of sent.flat()) await until(async () => (await statusOf(id)) === 'Delivered')

  const stored = await storedIds(t, url)
  const last = stored.at(-1) ?? 0
  await Promise.all(clients.map((client) => client.reached(last)))
  for (const { ids } of clients) t.strictSame(ids, stored)
  const rest = await EventClient.open(t, `${second.url}/api/v1`, { lastEventId: wandered.at(-1) ?? 0 })
  const again = await send(second)
  const { history } = await second.request<{ history: { id: number }[] }>('GET', `/messages/${again}`)
  await rest.reached(history.at(-1)?.id ?? 0)
  const after = await storedIds(t, url)
  const got = [...wandered, ...rest.ids]
  t.strictSame(got, after.slice(0, got.length))
})

t.test('6.1 a stop ends the streams at once and in order, also those that nobody reads', async (t) => {
  const url = await createEmptyDatabase(t)
  const node = await startNode(t, await temporaryDirectory(t), 'node', url)
  const pool = poolOf(t, url)
  const [id = ''] = await storeMessages(pool)
  await writeLines(pool, id, 900, 'x'.repeat(32 * 1024))
  const base = `${node.url}/api/v1`
  const clients = await Promise.all(Array.from({ length: 10 }, () => EventClient.open(t, base)))
  const unread = await EventClient.open(t, base, { lastEventId: 0 })
  unread.pause()
  const [line = 0] = await writeLines(pool, id)
  await Promise.all(clients.map((client) => client.reached(line)))
  t.equal(await node.stop(), 0)
  for (const client of clients) t.equal(await client.over(), 'complete', 'ended, not broken off')
  unread.resume()
  await unread.over()
})

t.test('6.1 a stream outlasts the loss of the database, and goes on where it was', async (t) => {
  const url = await createEmptyDatabase(t)
  const proxy = await databaseProxy(t, url)
  const node = await startNode(t, await temporaryDirectory(t), 'node', proxy.url)
  const pool = poolOf(t, url)
  const [id = ''] = await storeMessages(pool)
  const client = await EventClient.open(t, `${node.url}/api/v1`)
  const before = await writeLines(pool, id, 2)
  await client.reached(before.at(-1) ?? 0)
  await proxy.close()
  const health = async (): Promise<number> => (await fetch(`${node.url}/api/v1/health`)).status
  await until(async () => (await health()) === 503)
  const meanwhile = await writeLines(pool, id, 1_500)
  t.strictSame(client.ids, before)
  await proxy.open()
  const after = await writeLines(pool, id, 2)
  await client.reached(after.at(-1) ?? 0)
  t.strictSame(client.ids, [...before, ...meanwhile, ...after])
})
