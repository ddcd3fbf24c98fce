import { hash, randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { headerPairs } from '../../../../actors/as2/sending/http-client.ts'
import { micOf } from '../../../../actors/as2/protocol/mic.ts'
import { splitMultipart } from '../../../../actors/as2/protocol/mime.ts'
import { HeaderFields } from '../../../../runtime/mime/headers.ts'
import { allMessages } from '../../../support/exchanged-messages.ts'
import { GlobexPartner } from '../../../support/globex-partner.ts'

const MIB = 2 ** 20
// Each test waits for what it can observe; on a busy machine that adds up.
t.setTimeout(900_000)

const globex = await GlobexPartner.start(t)

t.test('a large message goes in chunks, without its length, and its receipt confirms it', async (t) => {
  const content = randomBytes(5 * MIB)
  const message = await globex.send('large.bin', content)
  const [request] = globex.requests
  t.match(request?.headers, { 'transfer-encoding': 'chunked', 'content-length': undefined })
  t.ok(globex.opened[0]?.content.equals(content))
  t.match(globex.opened[0], { signed: true, encrypted: true, compressed: true })
  t.match(message.protocols.as2, {
    mic: globex.opened[0]?.mic.value,
    receipt: { state: 'received', mic_matches: true },
  })
})

t.test('a small message always has its length', async (t) => {
  await globex.send('small.bin', randomBytes(300_000))
  t.match(globex.requests[0]?.headers, { 'transfer-encoding': undefined, 'content-length': /^\d+$/ })
})

t.test('chunked_transfer false: a large message has its length, too', async (t) => {
  await globex.profile({
    chunked_transfer: false,
    signature_scheme: 'PSS',
    encryption_algorithm: 'AES128-GCM',
  })
  const content = randomBytes(3 * MIB)
  await globex.send('counted.bin', content)
  t.match(globex.requests[0]?.headers, { 'transfer-encoding': undefined, 'content-length': /^\d+$/ })
  t.ok(globex.opened[0]?.content.equals(content))
  await globex.profile({
    chunked_transfer: true,
    signature_scheme: 'PKCS1',
    encryption_algorithm: 'AES256-CBC',
  })
})

t.test('content_transfer_encoding base64: the body is lines of text, large and small', async (t) => {
  await globex.profile({ content_transfer_encoding: 'base64' })
  for (const [name, bytes] of [
    ['text.bin', 2 * MIB],
    ['text small.bin', 20_000],
  ] as const) {
    const lines: string[] = []
    globex.behaviour = async (request, response) => {
      const body = await buffer(request)
      lines.push(...body.toString('latin1').split('\r\n'))
      await globex.confirm(request, body, response)
    }
    const content = randomBytes(bytes)
    await globex.send(name, content)
    t.equal(globex.requests[0]?.headers['content-transfer-encoding'], 'base64')
    t.ok(lines.every((line, index) => line.length === 76 || index === lines.length - 1))
    t.ok(lines.every((line) => /^[A-Za-z0-9+/]{1,76}={0,2}$/.test(line)))
    t.ok(globex.opened[0]?.content.equals(content))
  }
  globex.behaviour = (request, response) => globex.take(request, response)
  await globex.profile({ content_transfer_encoding: 'binary' })
})

t.test(
  'a right SHA-1 MIC confirms a large message signed with SHA-256, and a wrong one does not',
  async (t) => {
    const AS_BEFORE = { encryption_algorithm: 'AES256-CBC', compression: 'BeforeSigning' }
    await globex.profile({ encryption_algorithm: 'None', compression: 'None' })
    for (const [name, state] of [
      ['sha1.bin', 'delivered'],
      ['sha1 of another.bin', 'failed'],
    ] as const) {
      globex.behaviour = async (request, response) => {
        const headers = new HeaderFields(headerPairs(request.rawHeaders))
        const body = await buffer(request)
        const [part = body] = splitMultipart(headers.get('content-type') ?? '', body, 2)
        const mic = micOf('SHA1', state === 'delivered' ? part : part.subarray(1))
        await globex.answer(response, headers.get('message-id') ?? '', { mic })
      }
      const message = await globex.send(name, randomBytes(3 * MIB), state)
      const matches = state === 'delivered'
      t.match(message.protocols.as2, { mic_algorithm: 'SHA256', receipt: { mic_matches: matches } })
    }
    globex.behaviour = (request, response) => globex.take(request, response)
    await globex.profile(AS_BEFORE)
  },
)

t.test('the MIC of a large message is known before an asynchronous receipt can come', async (t) => {
  await globex.profile({ receipt_mode: 'Async', endpoint: globex.loop.receiverUrl })
  const message = await globex.send('asynchronous.bin', randomBytes(3 * MIB))
  t.match(message.protocols.as2?.receipt, { state: 'received', mic_matches: true })
  await globex.profile({ receipt_mode: 'Sync' })
})

t.test('64 MB go from one receiver to the other', async (t) => {
  await globex.profile({ endpoint: globex.loop.receiverUrl })
  const content = randomBytes(64 * MIB)
  const message = await globex.send('64 MB.bin', content)
  t.match(message.protocols.as2?.receipt, { state: 'received', mic_matches: true })
  const inbound = (await allMessages(globex.waybill)).find(
    ({ file_name, direction }) => file_name === '64 MB.bin' && direction === 'inbound',
  )
  const response = await fetch(`${globex.waybill.url}/api/v1/messages/${inbound?.id}/payload?stage=unpacked`)
  const received = Buffer.from(await response.arrayBuffer())
  t.equal(hash('sha256', received), hash('sha256', content))
})
