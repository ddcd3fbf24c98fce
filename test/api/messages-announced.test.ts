import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { accept } from '../../storage/sql/accept.ts'
import { startApi } from '../support/api.ts'
import { exchangeRecords } from '../support/exchange-records.ts'
import { multipart, MULTIPART_HEADERS } from '../support/multipart.ts'
import { newMessage } from '../storage/exchange/fixture.ts'

const WAIT_MS = 60_000
const LOOK_MS = 20

interface Shown {
  readonly status: string
  readonly deliveries: readonly { readonly id: number; readonly attempts: number }[]
  readonly history: readonly { readonly new_state?: string }[]
}

// No clock runs here: what a target does not hear of, it never does after its start.
t.test('a target that runs is told of what waits for it as soon as that is committed', async (t) => {
  const api = await startApi(t)
  const directory = await exchangeRecords(t, api)
  const { client, database } = api
  const started = await client.post('/services/file-writer/outer/start')
  t.match(started.data, { status: 'running' })
  const written = (name: string): Promise<string> =>
    readFile(join(directory, 'outer', 'globex', name), 'utf8')
  const delivered = async (id: string, times: number): Promise<Shown> => {
    const deadline = performance.now() + WAIT_MS
    for (;;) {
      const message = (await client.get(`/messages/${id}`)).data as unknown as Shown
      const count = message.history.filter(({ new_state }) => new_state === 'delivered').length
      if (count === times && message.status === 'Delivered') return message
      if (performance.now() > deadline) throw new Error(JSON.stringify(message))
      await sleep(LOOK_MS)
    }
  }

  const raw = multipart([
    { name: 'from', content: 'acme' },
    { name: 'to', content: 'globex' },
    { name: 'target', content: 'outer' },
    { name: 'file', fileName: 'by-hand.edi', content: 'UNB+1' },
  ])
  const sent = await client.ask('POST', '/messages', { raw, headers: MULTIPART_HEADERS })
  const id = String(sent.data['id'])
  t.match(sent.data, { status: 'InProgress' })
  const first = await delivered(id, 1)
  t.equal(await written('by-hand.edi'), 'UNB+1')

  const [delivery] = first.deliveries
  const again = await client.post(`/messages/${id}/deliveries/${delivery?.id}/redeliver`)
  t.equal(again.status, 200)
  const second = await delivered(id, 2)
  t.match(second.deliveries, [{ id: delivery?.id, attempts: 1 }])
  t.equal(await written('by-hand (2).edi'), 'UNB+1')

  const unrouted = newMessage({ source: 'poller', fileName: 'routed-later.edi' })
  await accept(database.pool, [unrouted])
  await client.create('/routes', { source_plugin: 'poller', target_plugin: 'outer' })
  t.match((await client.post(`/messages/${unrouted.id}/redispatch`)).data, { status: 'InProgress' })
  await delivered(unrouted.id, 1)
  t.equal(await written('routed-later.edi'), 'payload')
})
