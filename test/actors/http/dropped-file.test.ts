import { randomBytes } from 'node:crypto'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { allMessages, untilDelivered } from '../../support/exchanged-messages.ts'
import { temporaryDirectory } from '../../support/processes.ts'
import { Waybill } from '../../support/waybill.ts'
import { header, startWebServer } from './web-server.ts'

t.setTimeout(900_000)

t.test('what is dropped into a folder is posted byte for byte, and no secret is logged', async (t) => {
  t.setTimeout(900_000)
  const directory = await temporaryDirectory(t)
  const waybill = await Waybill.start({ directory, env: { LOG_LEVEL: 'trace' } })
  t.teardown(() => waybill.stop())
  const web = await startWebServer(t)
  await waybill.request('POST', '/organizations', { name: 'acme' })
  await waybill.request('POST', '/partners', { name: 'globex' })
  await waybill.request('POST', '/plugins/configs?type=file-poller', {
    name: 'outbox',
    base_directory: join(directory, 'outbox'),
    processed_directory: join(directory, 'processed'),
    from: 'acme',
    polling_interval: 1,
    settle_seconds: 0,
  })
  await waybill.request('POST', '/plugins/configs?type=http-poster', {
    name: 'erp',
    url: `${web.url}/in`,
    http_basic_username: 'waybill',
    http_basic_password: 'hunter2 password',
    http_headers: [{ name: 'X-Key', value: 'hunter2 header' }],
    signing_secret: 'hunter2 signing',
  })
  await waybill.request('POST', '/routes', { source_plugin: 'outbox', target_plugin: 'erp' })

  const files = new Map([
    ['empty.edi', Buffer.alloc(0)],
    ['one.edi', randomBytes(1)],
    ['small.edi', randomBytes(100_000)],
    ['large.edi', randomBytes(20 * 1024 * 1024 + 3)],
  ])
  const [draft, outbox] = [join(directory, 'drafts'), join(directory, 'outbox', 'globex')]
  for (const folder of [draft, outbox]) await mkdir(folder, { recursive: true })
  for (const [name, bytes] of files) {
    await writeFile(join(draft, name), bytes)
    await rename(join(draft, name), join(outbox, name))
  }
  for (const instance of ['http-poster/erp', 'file-poller/outbox'])
    await waybill.request('POST', `/services/${instance}/start`)
  await untilDelivered(waybill, files.size)

  const messages = new Map((await allMessages(waybill)).map(({ id, file_name }) => [id, file_name]))
  t.equal(messages.size, files.size)
  t.equal(web.received('/in').length, files.size, 'each once')
  for (const request of web.received('/in')) {
    const name = messages.get(header(request, 'webhook-id')?.slice(0, 36) ?? '') ?? ''
    t.ok(files.get(name)?.equals(request.body), name)
    t.match(header(request, 'user-agent'), /^Waybill\/\d+\.\d+\.\d+$/)
    files.delete(name)
  }
  t.equal(files.size, 0)
  t.ok(waybill.output.length > 0)
  t.notMatch(waybill.output.join('\n'), /hunter2/)
})
