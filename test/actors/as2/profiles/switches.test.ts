import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { decodeHeaderText } from '../../../../runtime/mime/header-text.ts'
import { openLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent, signedBy } from '../../../support/as2-correspondent.ts'

// What a partner's product needs otherwise, as it travels: requests are met byte for byte.
t.setTimeout(300_000)

const { waybill, loop } = await openLoop(t)
const acme = new As2Correspondent(waybill, loop)

/** One request as it came, in Latin-1. Each is answered with 200, and its connection is closed. */
const waiting: ((request: string) => void)[] = []
const partner = createServer((socket) => {
  answer(socket).catch(() => socket.destroy())
})
partner.listen(0, '127.0.0.1')
await once(partner, 'listening')
t.teardown(async () => void partner.close())
const endpoint = `http://127.0.0.1:${(partner.address() as AddressInfo).port}/as2`
const own = { receipt_mode: 'Sync', encryption_algorithm: 'None', compression: 'None' }
await waybill.request('POST', '/plugins/configs?type=as2-sender', { name: 'once', retry_max_attempts: 1 })
await waybill.request('POST', '/services/as2-sender/once/start')

async function answer(socket: Socket): Promise<void> {
  const request = await readRequest(socket)
  socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
  waiting.shift()?.(request)
}

async function readRequest(socket: Socket): Promise<string> {
  let text = ''
  for await (const chunk of socket) {
    text += (chunk as Buffer).toString('latin1')
    const end = text.indexOf('\r\n\r\n')
    const length = Number(/^content-length: *(\d+)\r$/im.exec(text)?.[1] ?? Number.NaN)
    if (end >= 0 && text.length >= end + 4 + length) return text
  }
  throw new Error('The connection ended before the request')
}

interface Request {
  readonly head: string
  readonly body: string
}

/** Sends a message under a change of the partner's profile; answers the request. */
async function sent(change: object): Promise<Request> {
  await acme.profile('globex', { ...own, endpoint, ...change })
  const coming = new Promise<string>((resolve) => waiting.push(resolve))
  await waybill.request('POST', `/as2/remote-profiles/${loop.globex.partner}/test-message`, {
    sender: 'once',
    organization: 'acme',
  })
  const request = await coming
  const end = request.indexOf('\r\n\r\n')
  return { head: request.slice(0, end + 2), body: request.slice(end + 4) }
}

void t.test('a message tells version 1.3, the product and what it can do', async (t) => {
  const { head } = await sent({ as2_version: '1.3' })
  t.match(head, /^AS2-Version: 1\.3\r$/m)
  t.match(head, /^AS2-Product: waybill:\d+\.\d+\.\d+\S*\r$/m)
  t.match(head, /^EDIINT-Features: multiple-attachments, AS2-Reliability\r$/m)
  t.match(head, /^AS2-To: "GLOBEX AS2"\r$/m)
  t.match(head, /^AS2-From: ACME-AS2\r$/m, 'a name is quoted only where it must be')
  t.notMatch(head, /\r\n[ \t]/, 'no header is folded')
  t.notMatch(head, /^transfer-encoding:/im)
})

void t.test('as2_version names an older one, without what it does not know', async (t) => {
  const { head } = await sent({ as2_version: '1.1' })
  t.match(head, /^AS2-Version: 1\.1\r$/m)
  t.notMatch(head, /AS2-Product|EDIINT-Features/i)
  t.match((await sent({ as2_version: '1.2' })).head, /^EDIINT-Features: /m)
  await acme.profile('globex', { as2_version: '1.3' })
})

void t.test('digests are spelt with a hyphen, or without where the profile says so', async (t) => {
  const { head } = await sent({})
  t.match(head, /^Content-Type: multipart\/signed;.* micalg=sha-256;/m)
  t.match(head, /signed-receipt-micalg=optional, sha-256\r$/m)
  const older = await sent({ micalg_format: 'sha256', signing_algorithm: 'SHA512' })
  await acme.profile('globex', { micalg_format: 'sha-256', signing_algorithm: 'SHA256' })
  t.match(older.head, /^Content-Type: multipart\/signed;.* micalg=sha512;/m)
  t.match(older.head, /signed-receipt-micalg=optional, sha512\r$/m)
})

void t.test('the name of the file travels, or stays here where the profile says so', async (t) => {
  const { head, body } = await sent({})
  t.match(head, /^Subject: waybill-test-\d+T\d+Z\.txt\r$/m)
  t.match(body, /Content-Disposition: attachment; filename="waybill-test-/)
  const silent = await sent({ send_file_name: false })
  t.notMatch(silent.head + silent.body, /waybill-test-/)
  t.notMatch(silent.head, /^subject:/im)
  const named = await sent({ send_file_name: false, subject: 'Orders' })
  await acme.profile('globex', { send_file_name: true, subject: '' })
  t.match(named.head, /^Subject: Orders\r$/m)
})

void t.test('however long a subject is, no line of a header has over 998 octets', async (t) => {
  const { head } = await sent({ subject: '€'.repeat(500) })
  await acme.profile('globex', { subject: '' })
  const lines = head.split('\r\n')
  t.same(
    lines.filter((line) => line.length > 998),
    [],
  )
  const [, subject = ''] = /^Subject: (.*)\r$/m.exec(head) ?? []
  t.match(decodeHeaderText(subject), /^€{100,}$/)
})

void t.test('nothing weak is made by default', async (t) => {
  await acme.profile('globex', { encryption_algorithm: 'AES256-CBC' })
  const { head } = await sent({ encryption_algorithm: 'AES256-CBC' })
  t.notMatch(head, /sha-?1\b|md5/i)
})

void t.test('receipts tell the same of us', async (t) => {
  const { headers, body } = await acme.send()
  const values = new Map(headers)
  t.equal(values.get('as2-version'), '1.3')
  t.match(values.get('as2-product'), /^waybill:\d+\.\d+/)
  t.equal(values.get('ediint-features'), 'multiple-attachments, AS2-Reliability')
  t.match(values.get('content-type'), /micalg=sha-256;/)
  t.match(body.toString(), /Received-content-MIC: \S+, sha-256\r/)

  await acme.profile('acme', { as2_version: '1.1', micalg_format: 'sha256' })
  const older = await acme.send()
  await acme.profile('acme', { as2_version: '1.3', micalg_format: 'sha-256' })
  t.match(new Map(older.headers).get('content-type'), /micalg=sha256;/)
  t.match(older.body.toString(), /Received-content-MIC: \S+, sha256\r/)
  t.equal(new Map(older.headers).get('as2-version'), '1.1')
  t.notOk(new Map(older.headers).has('as2-product'))
})

const SHA1 = { signature: signedBy(loop.acme.keys, { algorithm: 'SHA1' }) } as const
const SHA512 = { signature: signedBy(loop.acme.keys, { algorithm: 'SHA512' }) } as const

for (const [name, profile, message, micalg] of [
  ['the digest of the message', {}, SHA512, 'sha-512'],
  ['SHA-256 for a message with SHA-1, which is not made without being chosen', {}, SHA1, 'sha-256'],
  ['SHA-1 where the profile chooses it for receipts', { receipt_signing_algorithm: 'SHA1' }, {}, 'sha1'],
  ['SHA-1 where the profile chooses it for messages', { signing_algorithm: 'SHA1' }, SHA1, 'sha1'],
  ['what the profile says', { receipt_signing_algorithm: 'SHA384' }, SHA512, 'sha-384'],
] as const) {
  void t.test(`a receipt is signed with ${name}`, async (t) => {
    await acme.profile('acme', profile)
    const answer = await acme.send(message)
    await acme.profile('acme', { receipt_signing_algorithm: 'Auto', signing_algorithm: 'SHA256' })
    t.match(new Map(answer.headers).get('content-type'), `micalg=${micalg};`)
    const receipt = await acme.receiptOf(answer)
    t.match(receipt, { signed: true, disposition: { type: 'processed', modifier: null } })
    t.equal(receipt.mic?.value, answer.composed.mic.value, 'the MIC is that of the message in any case')
  })
}

void t.test('a receipt is padded as the profile says', async (t) => {
  await acme.profile('acme', { signature_scheme: 'PSS' })
  const answer = await acme.send()
  await acme.profile('acme', { signature_scheme: 'PKCS1' })
  t.match(await acme.receiptOf(answer), { signed: true })
  const rsassaPss = Buffer.from('06092a864886f70d01010a', 'hex')
  const [, encoded = ''] = /smime\.p7s"\r\n\r\n([A-Za-z0-9+/=\r\n]+)/.exec(answer.body.toString()) ?? []
  t.ok(Buffer.from(encoded, 'base64').includes(rsassaPss))
})
