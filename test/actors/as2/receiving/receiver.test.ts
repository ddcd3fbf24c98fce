import { readdir, readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { composeMessage, type Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import { micEquals } from '../../../../actors/as2/protocol/mic.ts'
import type { Receipt } from '../../../../actors/as2/protocol/receipt.ts'
import { As2Correspondent, type Answered } from '../../../support/as2-correspondent.ts'
import { setUpLoop, startLoop, type As2Loop } from '../../../support/as2-loop.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { allMessages, untilDelivered } from '../../../support/exchanged-messages.ts'
import { temporaryDirectory } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

const directory = await temporaryDirectory(t)
const waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop: As2Loop = await setUpLoop(waybill, { directory })
await startLoop(waybill)
const url = loop.receiverUrl
const acme = new As2Correspondent(waybill, loop)

const outgoing = (changes?: Partial<Outgoing>): Outgoing => acme.message(changes)
const post = (headers: ReadonlyArray<readonly [string, string]>, body: Buffer): Promise<Answered> =>
  acme.post(headers, body)
const receiptOf = (answer: Answered): Promise<Receipt> => acme.receiptOf(answer)

/** The message that the last request made. */
async function recordOf(messageId: string) {
  const found = (await allMessages(waybill)).filter(
    ({ protocols }) => protocols.as2?.message_id === messageId,
  )
  return found
}

/** Posts a message that must be refused; answers its receipt's disposition and its record. */
async function refused(
  t: Test,
  changes: Partial<Outgoing>,
  damage: (body: Buffer) => Buffer = (body) => body,
) {
  const message = outgoing(changes)
  const composed = await composeMessage(message)
  const sent = await post(composed.headers, damage(composed.body))
  t.equal(sent.status, 200)
  const receipt = await receiptOf(sent)
  const [record, ...others] = await recordOf(message.messageId)
  t.match(record, { status: 'Refused', direction: 'inbound', deliveries: [] })
  t.same(others, [])
  const inbox = await readdir(loop.inbox)
  t.notOk(inbox.includes(message.fileName ?? ''), 'nothing of it was delivered')
  return { receipt, reason: record?.history[0]?.text ?? '' }
}

void t.test('a message is confirmed by a signed receipt with its MIC, and delivered', async (t) => {
  const message = outgoing()
  const composed = await composeMessage(message)
  const sent = await post(composed.headers, composed.body)
  t.equal(sent.status, 200)
  const receipt = await receiptOf(sent)
  t.match(receipt, {
    signed: true,
    originalMessageId: message.messageId,
    disposition: { type: 'processed', modifier: null },
  })
  t.ok(receipt.mic !== null && micEquals(receipt.mic, composed.mic))
  await untilDelivered(waybill, 1)
  t.same(await readFile(join(loop.inbox, message.fileName ?? '')), message.content)
})

void t.test(
  'a message whose content has no name is recorded and delivered by that of its HTTP header',
  async (t) => {
    const named = ['Content-Disposition', 'attachment; filename="named outside.edi"'] as const
    const message = outgoing({ fileName: null })
    const { headers, body } = await composeMessage(message)
    const own = headers.filter(([name]) => name.toLowerCase() !== named[0].toLowerCase())
    await post([...own, named], body)
    await untilDelivered(waybill, 2)
    t.match(await recordOf(message.messageId), [{ file_name: 'named outside.edi' }])
    t.same(await readFile(join(loop.inbox, 'named outside.edi')), message.content)
  },
)

void t.test('the payload stages of a received message are what travelled', async (t) => {
  const message = outgoing()
  const composed = await composeMessage(message)
  const sent = await post(composed.headers, composed.body)
  const [record] = await recordOf(message.messageId)
  const stage = async (name: string): Promise<Buffer> => {
    const response = await fetch(`${waybill.url}/api/v1/messages/${record?.id}/payload?stage=${name}`)
    return Buffer.from(await response.arrayBuffer())
  }
  t.same(await stage('unpacked'), message.content)
  t.same(await stage('received'), composed.body)
  t.match((await stage('headers')).toString(), new RegExp(`^message-id: ${message.messageId}\r$`, 'im'))
  t.ok((await stage('receipt')).subarray(-sent.body.length).equals(sent.body))
})

void t.test('a credential that travelled in a header is not kept with the message', async (t) => {
  const message = outgoing()
  const composed = await composeMessage(message)
  const secrets = ['Basic dXNlcjpzZWNyZXQ=', 'session=secret']
  const credentials = { authorization: secrets[0] ?? '', cookie: secrets[1] ?? '' }
  await post([...composed.headers, ...Object.entries(credentials)], composed.body)
  const [record] = await recordOf(message.messageId)
  for (const stage of ['headers', 'message']) {
    const response = await fetch(`${waybill.url}/api/v1/messages/${record?.id}/payload?stage=${stage}`)
    const text = await response.text()
    t.match(text, /^authorization: \(withheld\)\r$/im)
    for (const secret of secrets) t.notOk(text.includes(secret))
  }
})

void t.test(
  'the same message twenty times at once is one message, with one receipt byte for byte',
  async (t) => {
    const message = outgoing()
    const composed = await composeMessage(message)
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(composed.headers, composed.body)))
    const again = await post(composed.headers, composed.body)
    t.ok([...answers, again].every(({ status, body }) => status === 200 && body.equals(again.body)))
    const [record, ...others] = await recordOf(message.messageId)
    t.same(others, [])
    t.equal(record?.history.filter(({ kind }) => kind === 'duplicate_received').length, 20)
  },
)

void t.test(
  'an unsigned message of text is refused as not secure enough, any other as not decrypted',
  async (t) => {
    for (const [content, text] of [
      ["UNB+UNOC:3'", 'insufficient-message-security'],
      ['\0', 'decryption-failed'],
    ] as const) {
      const { receipt, reason } = await refused(t, { signature: null, content: Buffer.from(content) })
      t.match(receipt.disposition, { type: 'processed', modifier: { kind: 'error', text } })
      t.match(reason, /not signed/)
    }
  },
)

void t.test('an unencrypted message is refused as not secure enough', async (t) => {
  const { receipt } = await refused(t, { encryption: null })
  t.match(receipt.disposition, { modifier: { kind: 'error', text: 'insufficient-message-security' } })
})

void t.test('a message signed by a stranger is refused', async (t) => {
  const stranger = makeCertificate({ commonName: 'Acme Pumps' })
  const signature = {
    algorithm: 'SHA256',
    scheme: 'PKCS1',
    certificate: stranger.certificate,
    privateKey: stranger.privateKey,
  } as const
  for (const changes of [{ signature }, { signature, encryption: null }]) {
    const { receipt } = await refused(t, changes)
    t.match(receipt.disposition, { modifier: { kind: 'error', text: 'authentication-failed' } })
  }
})

void t.test('a message that cannot be decrypted is refused', async (t) => {
  const { receipt } = await refused(t, {}, (body) => {
    const damaged = Buffer.from(body)
    damaged[damaged.length - 5] = (damaged.at(-5) ?? 0) ^ 0xff
    return damaged
  })
  t.match(receipt.disposition, { modifier: { kind: 'error', text: 'decryption-failed' } })
})

void t.test('a refused message may be sent again under its id', async (t) => {
  const message = outgoing()
  const composed = await composeMessage(message)
  await post(composed.headers, composed.body.subarray(0, -40))
  t.match(await receiptOf(await post(composed.headers, composed.body)), {
    disposition: { type: 'processed', modifier: null },
  })
  const statuses = (await recordOf(message.messageId)).map(({ status }) => status)
  t.same(statuses.filter((status) => status === 'Refused').length, 1)
  t.equal(statuses.length, 2)
})

void t.test('a message of an unknown pair is refused and recorded', async (t) => {
  const message = outgoing({ as2From: 'STRANGER' })
  const composed = await composeMessage(message)
  const sent = await post(composed.headers, composed.body)
  t.match(sent.body.toString(), /unknown-trading-relationship/)
  t.match(await recordOf(message.messageId), [{ status: 'Refused' }])
})

void t.test(
  'what is no AS2 message is answered with 400, and another path or method by its code',
  async (t) => {
    t.equal((await fetch(url, { method: 'POST', body: 'rubbish' })).status, 400)
    t.equal((await fetch(`${url}/other`, { method: 'POST', body: 'x' })).status, 404)
    const get = await fetch(url)
    t.equal(get.status, 405)
    t.equal(get.headers.get('allow'), 'POST, HEAD')
    const head = await fetch(url, { method: 'HEAD' })
    t.equal(head.status, 200)
    t.equal(head.headers.get('content-length'), '0')
  },
)

void t.test('a request that announces more than is allowed is refused before it is sent', async (t) => {
  const outcome = await new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const sent = request(
      url,
      { method: 'POST', headers: { 'Content-Length': String(2 ** 40) } },
      (response) => {
        void text(response).then((body) => resolve({ status: response.statusCode, body }), reject)
      },
    )
    sent.on('error', reject)
    sent.flushHeaders()
  })
  t.equal(outcome.status, 413)
})

void t.test('a repeat gets the stored receipt also when the profile has changed since', async (t) => {
  const message = outgoing()
  const composed = await composeMessage(message)
  const first = await post(composed.headers, composed.body)
  const change = (id: number | null) =>
    waybill.request('PUT', `/as2/remote-profiles/${loop.acme.partner}`, {
      partner_signing_certificate_id: id,
    })
  await change(loop.globex.certificate)
  const again = await post(composed.headers, composed.body)
  await change(null)
  t.ok(again.body.equals(first.body))
  t.equal((await recordOf(message.messageId)).length, 1)
})

void t.test('a signed receipt that cannot be signed is no reason to take the message', async (t) => {
  const change = (id: number | null) =>
    waybill.request('PUT', `/as2/local-profiles/${loop.globex.organization}`, { signing_certificate_id: id })
  await change(null)
  const message = outgoing()
  const composed = await composeMessage(message)
  const sent = await post(composed.headers, composed.body)
  await change(loop.globex.certificate)
  t.match(sent.body.toString(), /failed\/failure: unsupported format/)
  t.match(await recordOf(message.messageId), [
    { status: 'Refused', protocols: { as2: { receipt: { signed: false } } } },
  ])
})

void t.test('a request target that is no URL and headers that name nobody are told so', async (t) => {
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const { port, hostname } = new URL(url)
    const sent = request({ port, hostname, path: '//[', method: 'POST' }, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    sent.on('error', reject).end('x')
  })
  t.equal(status, 404)
  const nameless = await fetch(url, { method: 'POST', headers: { 'as2-to': 'GLOBEX' }, body: 'x' })
  t.equal(nameless.status, 400)
  t.match(await nameless.text(), /as2-from names no party/)
})
