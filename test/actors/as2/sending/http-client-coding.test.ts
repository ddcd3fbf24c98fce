import t from 'tap'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import type { Answer } from '../../../../actors/as2/sending/http-client.ts'
import { client, partner, post } from './posted-streams.ts'

t.setTimeout(120_000)

const MIB = 2 ** 20
const CONTENT = Buffer.from('a receipt, as it would be without any coding\r\n'.repeat(50))

/** The answer of a partner that sends this; `asked` are the codings that it was told of. */
async function answered(
  t: Parameters<typeof partner>[0],
  headers: Readonly<Record<string, string | string[]>>,
  body: Buffer,
  wishes: readonly (readonly [string, string])[] = [],
): Promise<Answer & { readonly asked: string | undefined }> {
  let asked: string | undefined
  const { port } = await partner(t, async (request, response) => {
    asked = request.headers['accept-encoding']?.toString()
    response.writeHead(200, { 'content-length': body.length, ...headers }).end(body)
  })
  const answer = await client(t).post(post(port, Buffer.from('message'), { headers: wishes }))
  return { ...answer, asked }
}

void t.test('no coding is asked for, unless the profile does (RFC 9110 §12.5.3)', async (t) => {
  t.equal((await answered(t, {}, CONTENT)).asked, 'identity')
  t.equal((await answered(t, {}, CONTENT, [['accept-encoding', 'gzip']])).asked, 'gzip')
})

const CODED: readonly (readonly [string, Buffer])[] = [
  ['gzip', gzipSync(CONTENT)],
  ['X-GZip', gzipSync(CONTENT)],
  ['deflate', deflateSync(CONTENT)],
  ['deflate', deflateRawSync(CONTENT)],
  ['identity, gzip', gzipSync(CONTENT)],
]

void t.test('an answer that is coded nevertheless is read as what it holds', async (t) => {
  for (const [coding, body] of CODED) {
    const headers = { 'content-encoding': coding, 'content-type': 'multipart/signed' }
    const answer = await answered(t, headers, body)
    t.ok(answer.body.equals(CONTENT), coding)
    t.equal(answer.coding, null)
    const names = new Set(answer.headers.map(([name]) => name.toLowerCase()))
    t.ok(names.has('content-type'))
    t.notOk(names.has('content-encoding') || names.has('content-length'), 'they spoke of the coding')
  }
})

void t.test('an answer without a coding is left as it is', async (t) => {
  for (const coding of ['identity', '', ' Identity ,']) {
    const answer = await answered(t, { 'content-encoding': coding }, CONTENT)
    t.ok(answer.body.equals(CONTENT))
    t.equal(answer.coding, null)
    t.ok(answer.headers.some(([name]) => name.toLowerCase() === 'content-length'))
  }
  const empty = await answered(t, { 'content-encoding': 'gzip' }, Buffer.alloc(0))
  t.match(empty, { coding: null, body: { length: 0 } }, 'nothing has no coding')
})

void t.test('a coding that cannot be undone is named, and its bytes stay', async (t) => {
  const twice = gzipSync(gzipSync(CONTENT))
  for (const [coding, body, told] of [
    ['br', brotliCompressSync(CONTENT), 'br'],
    ['gzip, gzip', twice, 'gzip, gzip'],
    ['gzip', CONTENT, 'gzip'],
    ['gzip', gzipSync(CONTENT).subarray(0, -12), 'gzip'],
    ['x'.repeat(500), CONTENT, 'x'.repeat(100)],
  ] as const) {
    const answer = await answered(t, { 'content-encoding': coding }, body)
    t.equal(answer.coding, told)
    t.ok(answer.body.equals(body))
  }
})

void t.test('what expands to more than any receipt is given up', async (t) => {
  const most = await answered(t, { 'content-encoding': 'gzip' }, gzipSync(Buffer.alloc(MIB)))
  t.equal(most.body.length, MIB)
  for (const [coding, bomb] of [
    ['gzip', gzipSync(Buffer.alloc(MIB + 1))],
    ['gzip', gzipSync(Buffer.alloc(64 * MIB))],
    ['deflate', deflateSync(Buffer.alloc(64 * MIB))],
    ['deflate', deflateRawSync(Buffer.alloc(64 * MIB))],
  ] as const) {
    await t.rejects(answered(t, { 'content-encoding': coding }, bomb), {
      message: `The receipt is larger than ${MIB} bytes without its coding ${coding}`,
    })
  }
})
