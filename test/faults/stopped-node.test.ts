import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { findMessage } from '../../storage/exchange/messages.ts'
import { createTestDatabase } from '../support/database.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

t.setTimeout(600_000)

interface Held {
  readonly id: string | string[] | undefined
  readonly answer: ServerResponse
}

t.test(
  'a node that stands still past its lease, and goes on after another has delivered, changes nothing',
  async (t) => {
    const { url, pool } = await createTestDatabase(t)
    const directory = await temporaryDirectory(t)
    await pool.query('update settings set storage_local_directory = $1', [join(directory, 'payloads')])
    const held: Held[] = []
    const partner = createServer((request: IncomingMessage, answer: ServerResponse) => {
      request.resume()
      request.on('end', () => held.push({ id: request.headers['webhook-id'], answer }))
    }).listen(0, '127.0.0.1')
    await once(partner, 'listening')
    t.teardown(async () => {
      partner.closeAllConnections()
      partner.close()
    })
    const address = partner.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0

    const start = async (node: string): Promise<Waybill> => {
      const waybill = await Waybill.start({
        directory: join(directory, node),
        env: { DATABASE_URL: url, SECRET_KEY: 'the same on every node', DELIVERY_LEASE_SECONDS: '2' },
      })
      t.teardown(() => waybill.kill())
      return waybill
    }
    const first = await start('first')
    await first.request('POST', '/organizations', { name: 'acme' })
    await first.request('POST', '/partners', { name: 'globex' })
    const poster = { name: 'poster', url: `http://127.0.0.1:${port}/`, response_timeout_seconds: 600 }
    await first.request('POST', '/plugins/configs?type=http-poster', poster)
    const second = await start('second')
    await until(async () => {
      const { services } = await second.request<{ services: { name: string; status: string }[] }>(
        'GET',
        '/services',
      )
      return services.some(({ name, status }) => name === 'poster' && status === 'running')
    })
    await second.request('POST', '/services/http-poster/poster/stop')
    await first.request('POST', '/services/http-poster/poster/start')

    const { id } = await first.upload<{ id: string }>('/messages', {
      from: 'acme',
      to: 'globex',
      target: 'poster',
      file: new Blob(['the payload']),
    })
    await until(() => held.length === 1)
    process.kill(first.pid, 'SIGSTOP')
    await second.request('POST', '/services/http-poster/poster/start')
    await until(() => held.length === 2)
    held[1]?.answer.end()
    await until(async () => (await findMessage(pool, id))?.status === 'Delivered')
    const delivered = await findMessage(pool, id)
    t.equal(held[0]?.id, held[1]?.id, 'the repeat carries the same id')
    t.match(delivered?.deliveries, [{ state: 'delivered', attempts: 2, last_error: null }])

    // Its answer is there when it goes on, and says something else.
    held[0]?.answer.writeHead(410).end()
    process.kill(first.pid, 'SIGCONT')
    const noticed = /the claim was lost before it was settled/
    await until(() => first.output.some((line) => noticed.test(line)))
    await until(
      async () => (await first.request<{ status: string }>('GET', `/messages/${id}`)).status === 'Delivered',
    )
    t.same(await findMessage(pool, id), delivered)
    t.equal(held.length, 2)
  },
)
