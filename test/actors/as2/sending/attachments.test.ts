import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { headerPairs } from '../../../../actors/as2/sending/http-client.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../actors/as2/protocol/incoming.ts'
import { journaled } from '../../../../storage/exchange/stages.ts'
import { accept } from '../../../../storage/sql/accept.ts'
import { startApi } from '../../../support/api.ts'
import { makeAs2Partners } from '../../../support/as2-partner.ts'
import { multipart, MULTIPART_HEADERS } from '../../../support/multipart.ts'
import { httpServer } from '../../../support/partner-server.ts'
import { until } from '../../../support/processes.ts'
import { randomLike } from '../protocol/stream/outgoing.ts'
import { newMessage } from '../../../storage/exchange/fixture.ts'

t.setTimeout(300_000)

interface Request {
  readonly headers: [string, string][]
  readonly body: Buffer
}

const api = await startApi(t)
const requests: Request[] = []
async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await buffer(request)
  requests.push({ headers: headerPairs(request.rawHeaders), body })
  response.writeHead(200).end()
}

const server = await httpServer(t, (request, response) => {
  take(request, response).catch(() => response.destroy())
})
const partners = await makeAs2Partners(api, `http://127.0.0.1:${server.port}/as2`)
await api.client.create('/plugins/configs?type=as2-sender', { name: 'sender' })
await api.client.post('/services/as2-sender/sender/start')

const profile = (changes: object) => api.client.put(partners.profile, { receipt_mode: 'None', ...changes })

/** Waits for the one request that a delivery makes. */
async function arrived(count: number): Promise<Request> {
  await until(() => requests.length >= count, 120_000)
  const request = requests[count - 1]
  if (request === undefined) throw new Error('Nothing has arrived')
  return request
}

async function untilDelivered(id: string): Promise<Record<string, unknown>> {
  let data: Record<string, unknown> = {}
  await until(async () => {
    data = (await api.client.get(`/messages/${id}`)).data
    return data['status'] === 'Delivered'
  }, 120_000)
  return data
}

async function send(more: readonly Uint8Array[] = []): Promise<string> {
  const field = (name: string, content: string) => ({ name, content })
  const file = (fileName: string, type: string, content: string | Uint8Array) => ({
    name: 'file',
    fileName,
    type,
    content,
  })
  const raw = multipart([
    field('from', 'acme'),
    field('to', 'globex'),
    field('target', 'sender'),
    file('order.xml', 'application/xml', '<order/>'),
    file('drawing.pdf', 'application/pdf', '%PDF-1'),
    file('notes ü.txt', 'text/plain', 'two\r\nlines\r\n'),
    ...more.map((content) => file('order-large.bin', 'application/octet-stream', content)),
  ])
  const { data, text } = await api.client.ask('POST', '/messages', { raw, headers: MULTIPART_HEADERS })
  if (typeof data['id'] !== 'string') throw new Error(text)
  return data['id']
}

const headersNamed = ({ headers }: Request, name: string): string[] =>
  headers.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value)

function opened({ headers, body }: Request): Promise<Incoming> {
  const { globexKeys, acmeKeys } = partners
  return readMessage({
    headers,
    body,
    decryption: [globexKeys],
    signers: [acmeKeys.certificate],
    maxContentBytes: 10_000_000,
  })
}

t.test('without any S/MIME the request is the multipart/related entity itself', async (t) => {
  await profile({ signing_algorithm: 'None', encryption_algorithm: 'None', compression: 'None' })
  const id = await send()
  const request = await arrived(1)
  const message = await untilDelivered(id)
  const [type = '', ...others] = headersNamed(request, 'content-type')
  t.same(others, [])
  t.equal(type, message['content_type'])
  t.same(headersNamed(request, 'content-disposition'), [], 'the whole has no file name')
  const [, boundary = ''] =
    /^multipart\/related; boundary="([^"]+)"; type="application\/xml"$/.exec(type) ?? []
  const [preamble, ...parts] = `\r\n${request.body.toString()}`.split(`\r\n--${boundary}`)
  t.equal(preamble, '')
  t.equal(parts.pop(), '--\r\n')
  t.same(
    parts.map((part) => part.split('\r\n\r\n', 1)[0]?.split('\r\n').slice(1)),
    [
      ['application/xml', 'attachment; filename="order.xml"'],
      ['application/pdf', 'attachment; filename="drawing.pdf"'],
      ['text/plain', `attachment; filename="notes _.txt"; filename*=UTF-8''notes%20%C3%BC.txt`],
    ].map(([each, disposition]) => [
      `Content-Type: ${each}`,
      'Content-Transfer-Encoding: binary',
      `Content-Disposition: ${disposition}`,
    ]),
  )
  t.same(
    parts.map((part) => part.slice(part.indexOf('\r\n\r\n') + 4)),
    ['<order/>', '%PDF-1', 'two\r\nlines\r\n'],
  )
})

t.test('signed, compressed and encrypted it is what was signed, and the MIC covers it whole', async (t) => {
  await profile({
    signing_algorithm: 'SHA256',
    encryption_algorithm: 'AES256-CBC',
    compression: 'AfterSigning',
  })
  const id = await send()
  const request = await arrived(2)
  const incoming = await opened(request)
  const message = await untilDelivered(id)
  t.match(incoming, { signed: true, encrypted: true, compressed: true, fileName: 'order.xml' })
  t.same(
    incoming.attachments?.map(({ fileName, contentType, sizeBytes }) => [fileName, contentType, sizeBytes]),
    [
      ['order.xml', 'application/xml', 8],
      ['drawing.pdf', 'application/pdf', 6],
      ['notes ü.txt', 'text/plain', 12],
    ],
  )
  const entity = `Content-Type: ${String(message['content_type'])}\r\nContent-Transfer-Encoding: binary\r\n\r\n`
  const mic = hash('sha256', Buffer.concat([Buffer.from(entity), incoming.content]), 'base64')
  t.equal(incoming.mic.value, mic, 'a content entity without a name')
  t.match(message['protocols'], { as2: { mic, attachment_count: 3 } })
})

t.test(
  'a message that came in with attachments and goes on over AS2 keeps its parts byte for byte',
  async (t) => {
    const received = Buffer.from(
      '--x\r\nContent-Disposition: attachment; filename=a.bin\r\nContent-Transfer-Encoding: base64\r\n\r\nQQ==\r\n--x\n\nodd\n--x--',
    )
    const contentType = `multipart/related; boundary="x"; x-long="${'y'.repeat(400)}"`
    const message = newMessage({
      source: 'receiver',
      from: 'acme',
      to: 'globex',
      fileName: 'a.bin',
      contentType,
      sizeBytes: received.length,
      stages: [journaled('unpacked', received)],
      byHand: { target: 'sender', sender: 'test' },
    })
    await accept(api.database.pool, [message])
    api.supervisor.announce('sender', 1)
    const incoming = await opened(await arrived(3))
    t.ok(incoming.content.equals(received))
    t.equal(incoming.contentType, contentType)
    t.match(incoming.attachments, [
      { fileName: 'a.bin', sizeBytes: 1 },
      { fileName: null, sizeBytes: 3 },
    ])
    await untilDelivered(message.id)
  },
)

const LARGE = randomLike(3_000_000, 1)

for (const [size, more] of [
  ['small', []],
  ['large', [LARGE]],
] as const) {
  t.test(
    `send_file_name and content_transfer_encoding count for each part of a ${size} message`,
    async (t) => {
      await profile({
        signing_algorithm: 'SHA256',
        encryption_algorithm: 'None',
        compression: 'None',
        send_file_name: false,
        content_transfer_encoding: 'base64',
      })
      const before = requests.length
      const id = await send(more)
      const request = await arrived(before + 1)
      const message = await untilDelivered(id)
      const text = request.body.toString('latin1')
      t.notMatch(text, /order|drawing|notes|[^\r\n\x20-\x7e]/, 'no name, and nothing but text')
      t.notMatch(JSON.stringify(request.headers), /order|drawing|notes/)
      const bodies = ['<order/>', '%PDF-1', 'two\r\nlines\r\n'].map((each) =>
        Buffer.from(each).toString('base64'),
      )
      for (const body of bodies) {
        const head = 'Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment\r\n\r\n'
        t.ok(text.includes(`${head}${body}\r\n--`))
      }
      const incoming = await opened(request)
      t.same(
        incoming.attachments?.map(({ fileName, sizeBytes }) => [fileName, sizeBytes]),
        [8, 6, 12, ...more.map(({ length }) => length)].map((bytes) => [null, bytes]),
      )
      t.match(message['protocols'], { as2: { mic: incoming.mic.value, attachment_count: 3 + more.length } })
    },
  )
}

t.test('one of the two switches leaves the rest of a part as it is', async (t) => {
  const plain = { signing_algorithm: 'None', encryption_algorithm: 'None', compression: 'None' }
  const part = async (changes: object): Promise<string> => {
    await profile({ ...plain, ...changes })
    await untilDelivered(await send())
    return requests.at(-1)?.body.toString().split('\r\n--', 1)[0] ?? ''
  }
  t.match(
    await part({ send_file_name: false, content_transfer_encoding: 'binary' }),
    /^Content-Transfer-Encoding: binary\r\nContent-Disposition: attachment\r\n\r\n<order\/>$/m,
  )
  t.match(
    await part({ send_file_name: true, content_transfer_encoding: 'base64' }),
    /^Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename="order.xml"\r\n\r\nPG9yZGVyLz4=$/m,
  )
})

t.test('a content type that was received with a name goes on without it', async (t) => {
  await profile({ send_file_name: false, content_transfer_encoding: 'binary' })
  const content = Buffer.from('x')
  const message = newMessage({
    source: 'receiver',
    from: 'acme',
    to: 'globex',
    fileName: 'a.edi',
    contentType: 'application/edifact; name="a.edi"; charset=x',
    sizeBytes: content.length,
    stages: [journaled('unpacked', content)],
    byHand: { target: 'sender', sender: 'test' },
  })
  await accept(api.database.pool, [message])
  api.supervisor.announce('sender', 1)
  await untilDelivered(message.id)
  const request = requests.at(-1)
  t.same(request && headersNamed(request, 'content-type'), ['application/edifact; charset=x'])
})
