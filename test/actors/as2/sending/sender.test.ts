import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { headerPairs } from '../../../../actors/as2/sending/http-client.ts'
import type { Disposition } from '../../../../actors/as2/protocol/disposition.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../actors/as2/protocol/incoming.ts'
import type { OutgoingReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { setUpLoop, startLoop } from '../../../support/as2-loop.ts'
import { receiptOf } from '../../../support/async-partner.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { allMessages, type ExchangedMessage } from '../../../support/exchanged-messages.ts'
import { dropFile } from '../../../support/file-set.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

// Each test waits for what it can observe; on a busy machine that adds up.
t.setTimeout(600_000)

const directory = await temporaryDirectory(t)
const waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop = await setUpLoop(waybill, { directory })

/** How the partner answers a message that it has opened. */
type Behaviour = (message: Incoming, response: ServerResponse) => Promise<void>
let behaviour: Behaviour = (message, response) => answer(message, response)
const received: Incoming[] = []

const server = createServer((request, response) => void take(request, response)).listen(0, '127.0.0.1')
await once(server, 'listening')
t.teardown(async () => {
  server.closeAllConnections()
  server.close()
})
const address = server.address()
const endpoint = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/as2`
await waybill.request('PUT', `/as2/remote-profiles/${loop.globex.partner}`, { endpoint })
await startLoop(waybill)

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { acme, globex } = loop
  const message = await readMessage({
    headers: headerPairs(request.rawHeaders),
    body: await buffer(request),
    decryption: [globex.keys],
    signers: [acme.keys.certificate],
    maxContentBytes: 1_000_000,
  })
  received.push(message)
  await behaviour(message, response)
}

async function answer(
  message: Incoming,
  response: ServerResponse,
  changes: Partial<OutgoingReceipt> = {},
): Promise<void> {
  const { headers, body } = await receiptOf(message, loop.globex.keys, changes)
  response.writeHead(200, headers.flat()).end(body)
}

/** Sends one file and waits until the partner has seen it and the delivery is where it should be. */
async function send(name: string, states: readonly string[]): Promise<ExchangedMessage & { state: string }> {
  await dropFile(loop.outbox, name, `content of ${name}`)
  let found: (ExchangedMessage & { state: string }) | undefined
  await until(async () => {
    const message = (await allMessages(waybill)).find(({ file_name }) => file_name === name)
    const state = message?.deliveries[0]?.state ?? ''
    if (message !== undefined && states.includes(state)) found = { ...message, state }
    return found !== undefined
  })
  if (found === undefined) throw new Error(`${name} was not sent`)
  return found
}

/** Lets a retrying message through, so that it does not disturb the tests behind it. */
async function letThrough(message: ExchangedMessage): Promise<void> {
  behaviour = (each, response) => answer(each, response)
  await untilStatus(message, 'Delivered')
}

async function untilStatus({ id }: ExchangedMessage, expected: string): Promise<void> {
  await until(async () => {
    const { status } = await waybill.request<ExchangedMessage>('GET', `/messages/${id}`)
    return status === expected
  })
}

void t.test('a verified receipt with the MIC of the message makes the delivery delivered', async (t) => {
  const message = await send('good.edi', ['delivered'])
  t.match(message, {
    status: 'Delivered',
    protocols: { as2: { receipt: { state: 'received', mic_matches: true, message_id: '<receipt@globex>' } } },
  })
  t.ok(message.history.some(({ kind }) => kind === 'mdn_received'))
  const opened = received.at(-1)
  t.match(opened, {
    signed: true,
    encrypted: true,
    compressed: true,
    fileName: 'good.edi',
    as2From: 'ACME-AS2',
    as2To: 'GLOBEX AS2',
  })
  const { signature, encryption, compression } = opened?.algorithms ?? {}
  t.same([signature, encryption, compression], ['SHA256', 'AES256-CBC', 'BeforeSigning'])
})

const NEGATIVE: Disposition = { type: 'processed', modifier: { kind: 'error', text: 'decryption-failed' } }
const stranger = makeCertificate({ commonName: 'Globex Waterworks' })
const strangersSignature = {
  algorithm: 'SHA256',
  scheme: 'PKCS1',
  certificate: stranger.certificate,
  privateKey: stranger.privateKey,
} as const

void t.test('a negative receipt fails the delivery with its reason', async (t) => {
  behaviour = (message, response) => answer(message, response, { disposition: NEGATIVE })
  const message = await send('negative.edi', ['failed'])
  t.match(message, { status: 'Error', protocols: { as2: { receipt: { state: 'refused' } } } })
  t.match(message.deliveries[0]?.last_error, /decryption-failed/)
  t.ok(message.history.some(({ kind }) => kind === 'mdn_refused'))
})

void t.test('a receipt with another MIC fails the delivery', async (t) => {
  behaviour = (message, response) =>
    answer(message, response, { mic: { algorithm: 'SHA256', value: Buffer.alloc(32).toString('base64') } })
  const message = await send('mic.edi', ['failed'])
  t.match(message, {
    status: 'Error',
    protocols: { as2: { receipt: { state: 'refused', mic_matches: false } } },
  })
})

const WORTHLESS: Readonly<Record<string, Behaviour>> = {
  'signed by a stranger': (message, response) => answer(message, response, { signature: strangersSignature }),
  'negative, but signed by a stranger': (message, response) =>
    answer(message, response, { signature: strangersSignature, disposition: NEGATIVE }),
  'without the signature that was asked for': (message, response) =>
    answer(message, response, { signature: null }),
  'for another message': (message, response) =>
    answer(message, response, { originalMessageId: '<other@acme>' }),
}

for (const [name, worthless] of Object.entries(WORTHLESS)) {
  void t.test(
    `a receipt ${name} proves nothing: the message is sent again under its Message-ID`,
    async (t) => {
      behaviour = worthless
      const message = await send(`${name}.edi`, ['retrying'])
      t.equal(message.status, 'Retrying')
      t.match(message.deliveries[0]?.last_error, /receipt/)
      t.match(message.protocols.as2?.receipt, { state: 'pending', disposition: null })
      const lines = message.history.filter(({ kind }) => kind === 'mdn_refused')
      t.match(lines, [{ text: /^A receipt was refused and changes nothing: / }], 'it is told')
      const ids = received.slice(-1).map(({ messageId }) => messageId)
      await letThrough(message)
      t.same([received.at(-1)?.messageId], ids)
    },
  )
}

const NO_RECEIPT: Readonly<Record<string, Behaviour>> = {
  'HTTP status 500': async (_, response) => void response.writeHead(500).end('broken'),
  'status 200 and nothing': async (_, response) => void response.end(),
  'status 200 and rubbish': async (_, response) => void response.end('<html>Welcome</html>'),
  'an end of the connection': async (_, response) => void response.destroy(),
  'an answer without end': async (_, response) => {
    const more = (): boolean => response.write(Buffer.alloc(65_536))
    while (more());
    response.on('drain', more)
  },
}

for (const [name, worthless] of Object.entries(NO_RECEIPT)) {
  void t.test(`${name} for an answer is retried`, async (t) => {
    behaviour = worthless
    const message = await send(`${name}.edi`, ['retrying'])
    t.equal(message.status, 'Retrying')
    t.ok((message.deliveries[0]?.last_error ?? '').length > 10)
    await letThrough(message)
  })
}

const REDIRECTS: readonly (readonly [number, Record<string, string>, RegExp])[] = [
  [302, { location: endpoint }, /HTTP status 302 Found to 127\.0\.0\.1:\d+; redirects are not followed$/],
  [
    307,
    { location: 'https://user:hidden@as2.globex.example/?key=hidden' },
    /Redirect to as2\.globex\.example;/,
  ],
  [308, { location: '/new?key=hidden' }, /Redirect to another path of its own;/],
  [301, {}, /HTTP status 301 Moved Permanently; redirects are not followed$/],
  [303, { location: 'http://[' }, /HTTP status 303 See Other; redirects are not followed$/],
]

void t.test('a redirect is not followed and fails for good, with where it leads to', async (t) => {
  for (const [status, headers, told] of REDIRECTS) {
    behaviour = async (_, response) => void response.writeHead(status, headers).end()
    const before = received.length
    const message = await send(`redirect ${status}.edi`, ['failed'])
    t.equal(message.status, 'Error')
    t.match(message.deliveries[0]?.last_error, told)
    t.notMatch(message.deliveries[0]?.last_error, /hidden/)
    t.equal(received.length, before + 1, 'it was sent once')
  }
})

void t.test('a partner that is not there is retried, and the message goes out when it is back', async (t) => {
  await waybill.request('PUT', `/as2/remote-profiles/${loop.globex.partner}`, {
    endpoint: 'http://127.0.0.1:9/as2',
  })
  const message = await send('unreachable.edi', ['retrying'])
  t.match(message.deliveries[0]?.last_error, /ECONNREFUSED/)
  await waybill.request('PUT', `/as2/remote-profiles/${loop.globex.partner}`, { endpoint })
  await letThrough(message)
})

void t.test(
  'an organization without a signing certificate fails the delivery with that reason',
  async (t) => {
    const change = (id: number | null) =>
      waybill.request('PUT', `/as2/local-profiles/${loop.acme.organization}`, { signing_certificate_id: id })
    await change(null)
    const message = await send('unsigned.edi', ['failed'])
    t.match(message.deliveries[0]?.last_error, /no signing certificate/)
    await change(loop.acme.certificate)
  },
)

void t.test(
  'the receipt of an attempt whose answer was lost counts, also when the profile has changed since',
  async (t) => {
    const change = (signing_algorithm: string) =>
      waybill.request('PUT', `/as2/remote-profiles/${loop.globex.partner}`, { signing_algorithm })
    let first: Incoming | undefined
    behaviour = async (message, response) => {
      first ??= message
      response.destroy()
    }
    const message = await send('lost receipt.edi', ['retrying'])
    t.match(message.protocols.as2, { message_id: `<${message.id}@waybill>`, receipt: { state: 'pending' } })
    await change('SHA512')
    // An attempt may still be under way that was composed before the change.
    behaviour = async (again, response) => {
      if (again.algorithms.signature === 'SHA256') response.destroy()
      else await answer(again, response, { mic: first?.mic ?? null })
    }
    await untilStatus(message, 'Delivered')
    t.equal(received.at(-1)?.algorithms.signature, 'SHA512', 'the repeat was composed anew')
    await change('SHA256')
  },
)
