import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { journaled } from '../../storage/exchange/stages.ts'
import { query, transaction } from '../../storage/postgres/pool.ts'
import { accept } from '../../storage/sql/accept.ts'
import { startApi } from '../support/api.ts'
import { makeAs2Partners } from '../support/as2-partner.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { newMessage } from '../storage/exchange/fixture.ts'
import { startWebServer } from './http/web-server.ts'

t.setTimeout(300_000)

interface Delivery {
  readonly state: string
  readonly last_error: string | null
}

t.test(
  'a small payload whose bit has flipped in the database is told of, and delivered by no target',
  async (t) => {
    const api = await startApi(t)
    const { client, database, supervisor } = api
    const web = await startWebServer(t)
    const partners = await makeAs2Partners(api, `${web.url}/as2`)
    t.equal((await client.put(partners.profile, { receipt_mode: 'None' })).status, 200)
    const directory = await temporaryDirectory(t)
    const inbox = join(directory, 'inbox')
    await mkdir(inbox)
    const once = { retry_max_attempts: 1 }
    const targets: Readonly<Record<string, object>> = {
      'file-writer': { base_directory: inbox },
      'http-poster': { url: `${web.url}/in`, signing_secret: 'a secret of the two' },
      'as2-sender': {},
    }
    await client.create('/plugins/configs?type=file-poller', {
      name: 'source',
      enabled: false,
      base_directory: join(directory, 'outbox'),
      processed_directory: join(directory, 'processed'),
      from: 'acme',
    })
    for (const [type, settings] of Object.entries(targets)) {
      await client.create(`/plugins/configs?type=${type}`, { name: type, ...settings, ...once })
      await client.create('/routes', { source_plugin: 'source', target_plugin: type })
    }
    const bytes = Buffer.from('an invoice over 100 euros')
    const accepted = async (damaged: boolean): Promise<string> => {
      const message = newMessage({ stages: [journaled('unpacked', bytes)], sizeBytes: bytes.length })
      await transaction(database.pool, async (on) => {
        await accept(on, [message])
        if (!damaged) return
        await query(
          on,
          'update journal set bytes = set_byte(bytes, 16, get_byte(bytes, 16) # 1) where message_id = $1',
          [message.id],
        )
      })
      return message.id
    }
    const [damaged, whole] = [await accepted(true), await accepted(false)]
    for (const type of Object.keys(targets)) {
      const { status, text } = await client.post(`/services/${type}/${type}/start`)
      t.equal(status, 200, text)
    }
    const statesOf = async (id: string): Promise<readonly Delivery[]> =>
      (await client.get(`/messages/${id}`)).data['deliveries'] as readonly Delivery[]
    for (const [id, state] of [
      [damaged, 'failed'],
      [whole, 'delivered'],
    ] as const) {
      await until(async () => {
        for (const type of Object.keys(targets)) supervisor.announce(type, 1)
        return (await statesOf(id)).every((delivery) => delivery.state === state)
      }).catch(async (error: unknown) => {
        throw new Error(`${String(error)}: ${JSON.stringify(await statesOf(id))}`)
      })
    }
    for (const { last_error } of await statesOf(damaged))
      t.equal(last_error, `The payload ${damaged}/unpacked differs from what was stored`)
    t.equal(web.received('/in').length, 1)
    t.equal(web.received('/as2').length, 1)
    t.same(await readdir(join(inbox, 'globex')), ['invoice.edi'])
  },
)
