import { randomBytes } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { dropFile } from '../../../support/file-set.ts'
import { GlobexPartner } from '../../../support/globex-partner.ts'

const MIB = 2 ** 20
// Each test waits for what it can observe; on a busy machine that adds up.
t.setTimeout(900_000)

const globex = await GlobexPartner.start(t)

t.test('a partner that dies midway gets the message again, under the same ids', async (t) => {
  globex.behaviour = async (request) => {
    let bytes = 0
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > MIB) request.destroy()
    }
  }
  const message = await globex.send('died.bin', randomBytes(4 * MIB), 'retrying')
  t.match(message, { status: 'Retrying', protocols: { as2: { message_id: `<${message.id}@waybill>` } } })
  const delivered = await globex.letThrough('died.bin')
  t.equal(globex.opened[0]?.messageId, `<${message.id}@waybill>`)
  t.ok((delivered.deliveries[0]?.attempts ?? 0) >= 2)
})

t.test('a partner that takes it slowly gets all of it', async (t) => {
  const content = randomBytes(4 * MIB)
  globex.behaviour = async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await globex.confirm(request, Buffer.concat(chunks), response)
  }
  await globex.send('slow.bin', content)
  t.ok(globex.opened[0]?.content.equals(content))
  globex.behaviour = (request, response) => globex.take(request, response)
})

t.test('an error before the message is there ends the attempt with what the partner said', async (t) => {
  globex.behaviour = async (_request, response) => void response.writeHead(503).end()
  const message = await globex.send('early.bin', randomBytes(24 * MIB), 'retrying')
  t.match(message.deliveries[0]?.last_error, /HTTP status 503/)
  t.equal(globex.requests[0]?.complete, false, 'the rest of it did not travel')
  await globex.letThrough('early.bin')
})

t.test('a success before the message is there counts for nothing', async (t) => {
  await globex.profile({ receipt_mode: 'None' })
  globex.behaviour = async (_request, response) => void response.writeHead(200).end()
  const message = await globex.send('premature.bin', randomBytes(24 * MIB), 'retrying')
  t.match(message.deliveries[0]?.last_error, /before it had the whole message/)
  await globex.letThrough('premature.bin')
  await globex.profile({ receipt_mode: 'Sync' })
})

t.test('a partner may refuse a very large message before it travels', async (t) => {
  globex.whenAsked = async (request, response) => {
    const id = String(request.headers['message-id'])
    const error = {
      type: 'processed',
      modifier: { kind: 'error', text: 'insufficient-message-security' },
    } as const
    await globex.answer(response, id, { disposition: error })
  }
  const message = await globex.send('refused.bin', randomBytes(20 * MIB), 'failed')
  t.match(message.deliveries[0]?.last_error, /insufficient-message-security/)
  t.ok(message.history.some(({ kind }) => kind === 'mdn_refused'))
  globex.whenAsked = null
})

t.test('a payload that is damaged in the store is never sent to its end', async (t) => {
  const sender = (action: string) => globex.waybill.request('POST', `/services/as2-sender/sender/${action}`)
  for (const chunked of [true, false]) {
    await globex.profile({ chunked_transfer: chunked })
    const name = `damaged ${chunked}.bin`
    await sender('stop')
    globex.requests.length = 0
    await dropFile(globex.loop.outbox, name, randomBytes(5 * MIB))
    const { id } = await globex.untilIn(name, 'queued')
    const payload = await open(join(globex.directory, 'payloads', id, 'unpacked'), 'r+')
    await payload.write(Buffer.from('damage'), 0, 6, 2 * MIB)
    await payload.close()
    await sender('start')
    const message = await globex.untilIn(name, 'failed')
    t.match(message.deliveries[0]?.last_error, /differs from what was stored/)
    t.notOk(
      globex.requests.some(({ complete }) => complete),
      `chunked ${chunked}`,
    )
  }
  await globex.profile({ chunked_transfer: true })
})
