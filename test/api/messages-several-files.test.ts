import { hash, randomBytes } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseParameters } from '../../runtime/mime/parameters.ts'
import { startApi, type TestApi } from '../support/api.ts'
import type { Answer } from '../support/client.ts'
import { exchangeRecords } from '../support/exchange-records.ts'
import { multipart, MULTIPART_HEADERS, type Part } from '../support/multipart.ts'

t.setTimeout(300_000)

const MIB = 1024 * 1024
const NAMED: readonly Part[] = [
  { name: 'from', content: 'acme' },
  { name: 'to', content: 'globex' },
  { name: 'target', content: 'outer' },
]
const file = (fileName: string, content: string | Uint8Array, type = 'application/octet-stream'): Part => ({
  name: 'file',
  fileName,
  content,
  type,
})

function send(
  { client }: TestApi,
  files: readonly Part[],
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const raw = multipart([...NAMED, ...files])
  return client.ask('POST', '/messages', { raw, headers: { ...MULTIPART_HEADERS, ...headers } })
}

/** What is left in the payload store, drafts among it. */
async function stored({ directory }: TestApi): Promise<string[]> {
  const names = await readdir(directory, { recursive: true })
  return names.filter((name) => name !== '.incoming')
}

async function started(t: Test): Promise<TestApi> {
  const api = await startApi(t)
  await exchangeRecords(t, api)
  return api
}

t.test(
  'POST /messages with several files makes one message with one multipart/related payload',
  async (t) => {
    const api = await started(t)
    const { client } = api
    const answer = await send(api, [
      file('order ü.xml', '<order/>'),
      file('drawing.pdf', '%PDF', 'application/pdf'),
      file('', 'no name', 'text/csv'),
    ])
    t.equal(answer.status, 201)
    t.match(answer.data, {
      file_name: 'order ü.xml',
      stage: 'dispatched',
      deliveries: [{ target: 'outer' }],
      protocols: {},
    })
    const type = String(answer.data['content_type'])
    const [, boundary = ''] =
      /^multipart\/related; boundary="(=_[0-9a-f]{32})"; type="application\/xml"$/.exec(type) ?? []
    t.not(boundary, '', type)
    const id = String(answer.data['id'])
    const payload = await client.get(`/messages/${id}/payload?stage=unpacked`)
    const lines = [
      `--${boundary}`,
      'Content-Type: application/xml',
      'Content-Transfer-Encoding: binary',
      `Content-Disposition: attachment; filename="order _.xml"; filename*=UTF-8''order%20%C3%BC.xml`,
      '',
      '<order/>',
      `--${boundary}`,
      'Content-Type: application/pdf',
      'Content-Transfer-Encoding: binary',
      'Content-Disposition: attachment; filename="drawing.pdf"',
      '',
      '%PDF',
      `--${boundary}`,
      'Content-Type: text/csv',
      'Content-Transfer-Encoding: binary',
      'Content-Disposition: attachment',
      '',
      'no name',
      `--${boundary}--`,
      '',
    ]
    t.equal(payload.text, lines.join('\r\n'))
    t.equal(answer.data['size_bytes'], payload.text.length)

    const names = ['order ü.xml', 'drawing.pdf', `${id}-3.csv`]
    for (const [index, text] of ['<order/>', '%PDF', 'no name'].entries()) {
      const one = await client.get(`/messages/${id}/payload?attachment=${index + 1}`)
      t.equal(one.text, text)
      t.match(one.headers.get('content-disposition'), encodeURIComponent(names[index] ?? '').slice(0, 5))
    }
    t.equal((await client.get(`/messages/${id}/payload?stage=unpacked&attachment=4`)).status, 404)
    for (const bad of ['0', '-1', '1.5', 'x', '', '1234567890']) {
      const refused = await client.get(`/messages/${id}/payload?attachment=${bad}`)
      t.same(Object.keys(refused.error?.details ?? {}), ['attachment'], bad)
    }
    t.equal((await client.get(`/messages/${id}/payload?stage=headers&attachment=1`)).status, 400)
  },
)

t.test('a message of one file has no attachments', async (t) => {
  const api = await started(t)
  for (const type of ['text/csv', 'multipart/related']) {
    const { data } = await send(api, [file('a.csv', 'x', type)])
    t.equal(data['content_type'], 'text/csv', 'a multipart without its boundary is none')
    t.equal((await api.client.get(`/messages/${String(data['id'])}/payload?attachment=1`)).status, 404)
  }
})

t.test('files of one name get different ones, as receivers may refuse equal names', async (t) => {
  const api = await started(t)
  const long = `${'ü'.repeat(125)}.edi`
  const given = ['a.edi', 'A.EDI', 'a-2.edi', '', 'a.edi', '', 'b', 'b', long, long]
  const { data } = await send(
    api,
    given.map((name, index) => file(name, String(index))),
  )
  const id = String(data['id'])
  const names = given.map(async (_, index) => {
    const { headers, text } = await api.client.get(`/messages/${id}/payload?attachment=${index + 1}`)
    t.equal(text, String(index))
    return parseParameters(headers.get('content-disposition') ?? '').parameters.get('filename')
  })
  t.same(await Promise.all(names), [
    'a.edi',
    'A-3.EDI',
    'a-2.edi',
    `${id}-4.bin`,
    'a-4.edi',
    `${id}-6.bin`,
    'b',
    'b-2',
    long,
    `${'ü'.repeat(124)}-2.edi`,
  ])
  t.equal(data['file_name'], 'a.edi')
})

t.test('large files are in the message byte for byte, and nothing else stays of them', async (t) => {
  const api = await started(t)
  const contents = [randomBytes(3 * MIB), randomBytes(100), randomBytes(2 * MIB), Buffer.alloc(0)]
  const { data } = await send(
    api,
    contents.map((content, index) => file(`part-${index}.bin`, content)),
  )
  const id = String(data['id'])
  t.same((await stored(api)).toSorted(), [id, join(id, 'unpacked')].toSorted())
  for (const [index, content] of contents.entries()) {
    const answer = await fetch(`${api.base}/messages/${id}/payload?attachment=${index + 1}`)
    const bytes = Buffer.from(await answer.arrayBuffer())
    t.equal(hash('sha256', bytes), hash('sha256', content))
  }

  const place = join(api.directory, id, 'unpacked')
  const damaged = await readFile(place)
  damaged[damaged.length - 100] = (damaged.at(-100) ?? 0) + 1
  await writeFile(place, damaged)
  const small = await api.client.get(`/messages/${id}/payload?attachment=2`)
  t.equal(small.error?.code, 'PAYLOAD_DAMAGED', 'of a damaged payload no file is served')
  const large = await fetch(`${api.base}/messages/${id}/payload?attachment=1`).then(
    (response) => response.arrayBuffer().then(() => response.status),
    () => 0,
  )
  t.equal(large, 500)
})

t.test('the same files under one Idempotency-Key are one message, other files are a conflict', async (t) => {
  const api = await started(t)
  const key = { 'idempotency-key': 'order-4711' }
  const files = [file('a.xml', '<a/>'), file('', randomBytes(400_000)), file('b.xml', '<b/>')]
  const answers = await Promise.all([1, 2, 3].map(() => send(api, files, key)))
  t.same(new Set(answers.map(({ status }) => status)), new Set([201]))
  t.equal(new Set(answers.map(({ data }) => data['id'])).size, 1)
  const kept = await stored(api)
  t.equal(kept.length, 2)
  for (const other of [files.toReversed(), files.slice(1), [...files, files[0] as Part], [files[0] as Part]])
    t.equal((await send(api, other, key)).error?.code, 'CONFLICT')
  t.equal((await send(api, [file('c.xml', '<a/>'), ...files.slice(1)], key)).status, 409, 'another name')
  t.same(await stored(api), kept)
})

t.test('the bounds: 50 files, and 64 MiB of all together', async (t) => {
  const api = await started(t)
  const small = Array.from({ length: 50 }, (_, index) => file(`${index}.txt`, String(index)))
  t.equal((await send(api, small)).status, 201)
  const more = await send(api, [...small, file('51.txt', '')])
  t.match(more.error?.details, { file: 'must be sent at most 50 times' })
  const kept = await stored(api)
  const large = Buffer.alloc(30 * MIB, 'EDI content\r\n')
  const three = await send(api, [
    file('1', large),
    file('2', large),
    file('3', large.subarray(0, 4 * MIB + 1)),
  ])
  t.equal(three.status, 413)
  t.equal(three.error?.code, 'PAYLOAD_TOO_LARGE')
  t.same(await stored(api), kept, 'nothing of it stays')
  const exact = await send(api, [file('1', large), file('2', large), file('3', large.subarray(0, 4 * MIB))])
  t.equal(exact.status, 201)
})
