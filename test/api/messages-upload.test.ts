import { once } from 'node:events'
import { request, type ClientRequest, type IncomingMessage } from 'node:http'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startApi, type TestApi } from '../support/api.ts'
import { exchangeRecords } from '../support/exchange-records.ts'
import { CLOSING, multipart, MULTIPART_HEADERS, partHead } from '../support/multipart.ts'

const MIB = 1024 * 1024
const LIMIT_BYTES = 64 * MIB
/** How long a condition that must come true is waited for. */
const WAIT_MS = 60_000
const LOOK_MS = 20

const BLOCK = Buffer.alloc(MIB, 'EDI content\r\n')
const FIELDS = multipart(
  [
    { name: 'from', content: 'acme' },
    { name: 'to', content: 'globex' },
    { name: 'target', content: 'outer' },
  ],
  false,
)
const FILE_HEAD = partHead({ name: 'file', fileName: 'large.edi' })

async function started(t: Test): Promise<TestApi> {
  const api = await startApi(t)
  await exchangeRecords(t, api)
  return api
}

/** An upload whose body is written step by step; chunked unless it declares its length. */
function open({ base }: TestApi, headers: Readonly<Record<string, string | number>> = {}) {
  const sending = request(`${base}/messages`, {
    method: 'POST',
    headers: { ...MULTIPART_HEADERS, ...headers },
  })
  // What the server closes in our face is seen in the answer, or in its absence.
  sending.on('error', () => undefined)
  const answered = once(sending, 'response').then(async ([response]) => {
    const answer = response as IncomingMessage
    return { status: answer.statusCode, text: await text(answer) }
  })
  answered.catch(() => undefined)
  return { sending, answered }
}

async function write(sending: ClientRequest, bytes: Buffer): Promise<void> {
  if (!sending.write(bytes)) await once(sending, 'drain')
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WAIT_MS
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`It never came true that ${what}`)
    await sleep(LOOK_MS)
  }
}

async function draftBytes({ directory }: TestApi): Promise<number> {
  const drafts = join(directory, '.incoming')
  const sizes = await Promise.all(
    (await readdir(drafts)).map((name) =>
      stat(join(drafts, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

async function nothingIsLeft(t: Test, api: TestApi): Promise<void> {
  await until('nothing is left in the payload store', async () => {
    const names = await readdir(api.directory, { recursive: true })
    return names.every((name) => name === '.incoming')
  })
  const { rows } = await api.database.pool.query('select from message')
  t.equal(rows.length, 0)
}

t.test(
  'the file of POST /messages is in the payload store while it still comes in, and so not in memory',
  async (t) => {
    const api = await started(t)
    const { sending, answered } = open(api)
    await write(sending, Buffer.concat([FIELDS, FILE_HEAD]))
    for (let sent = 1; sent <= 16; sent += 1) {
      await write(sending, BLOCK)
      await until(
        `most of ${sent} MiB lie in a draft`,
        async () => (await draftBytes(api)) > (sent - 0.75) * MIB,
      )
    }
    sending.end(CLOSING)
    const { status, text: answer } = await answered
    t.equal(status, 201)
    const { data } = JSON.parse(answer) as { data: { id: string; size_bytes: number } }
    t.equal(data.size_bytes, 16 * MIB)
    t.equal(await draftBytes(api), 0)
    const stored = await stat(join(api.directory, data.id, 'unpacked'))
    t.equal(stored.size, 16 * MIB)
  },
)

t.test('an upload that its client breaks off leaves no draft and no message', async (t) => {
  const api = await started(t)
  for (const afterMiB of [0, 1, 5]) {
    const { sending } = open(api)
    await write(sending, Buffer.concat([FIELDS, FILE_HEAD]))
    for (let sent = 0; sent < afterMiB; sent += 1) await write(sending, BLOCK)
    if (afterMiB > 0) await until('a draft has begun', async () => (await draftBytes(api)) > 0)
    sending.destroy()
    await nothingIsLeft(t, api)
  }
})

t.test(
  'a body that ends within the file, or without its closing boundary, is refused and leaves nothing',
  async (t) => {
    const api = await started(t)
    for (const content of ['small', Buffer.alloc(MIB, 'x')]) {
      const raw = Buffer.concat([FIELDS, FILE_HEAD, Buffer.from(content)])
      const answer = await api.client.ask('POST', '/messages', { raw, headers: MULTIPART_HEADERS })
      t.equal(answer.status, 400)
      t.equal(answer.error?.message, 'Invalid request body')
      t.type(answer.error?.details?.['body'], 'string')
      await nothingIsLeft(t, api)
    }
  },
)

t.test('a body that is no form is refused and leaves nothing', async (t) => {
  const api = await started(t)
  const { client } = api
  const type = MULTIPART_HEADERS['content-type']
  const file = { name: 'file', fileName: 'a.edi', content: 'x' }
  for (const [what, contentType, raw] of [
    ['no boundary', 'multipart/form-data', multipart([file])],
    ['another boundary', 'multipart/form-data; boundary=other', multipart([file])],
    ['no part', type, Buffer.from('text')],
    ['nothing', type, Buffer.alloc(0)],
    ['a part without a name', type, Buffer.from(multipart([file]).toString().replace(' name="file";', ''))],
    ['a part with the name of a property of objects', type, multipart([{ ...file, name: '__proto__' }])],
    ['a part with endless headers', type, partHead({ name: 'x'.repeat(200_000), fileName: 'a' }).subarray(2)],
  ] as const) {
    const answer = await client.ask('POST', '/messages', {
      raw,
      headers: { ...MULTIPART_HEADERS, 'content-type': contentType },
    })
    t.equal(answer.status, 400, what)
    t.equal(answer.error?.code, 'INVALID_INPUT', what)
  }
  await nothingIsLeft(t, api)
})

t.test('a file of 64 MiB is taken, and one byte more is 413', async (t) => {
  const api = await started(t)
  const sendBytes = async (bytes: number) => {
    const { sending, answered } = open(api, {
      'content-length': FIELDS.length + FILE_HEAD.length + bytes + CLOSING.length,
    })
    await write(sending, Buffer.concat([FIELDS, FILE_HEAD]))
    for (let left = bytes; left > 0; left -= BLOCK.length) await write(sending, BLOCK.subarray(0, left))
    sending.end(CLOSING)
    return answered
  }
  const larger = await sendBytes(LIMIT_BYTES + 1)
  t.equal(larger.status, 413)
  t.match(larger.text, '"code":"PAYLOAD_TOO_LARGE"')
  await nothingIsLeft(t, api)
  const whole = await sendBytes(LIMIT_BYTES)
  t.equal(whole.status, 201)
  t.match(whole.text, `"size_bytes":${LIMIT_BYTES}`)
})

t.test('413 comes as soon as the bound is passed, also when the length is not declared', async (t) => {
  const api = await started(t)
  const { sending, answered } = open(api)
  await write(sending, Buffer.concat([FIELDS, FILE_HEAD]))
  for (let sent = 0; sent < LIMIT_BYTES; sent += BLOCK.length) await write(sending, BLOCK)
  await write(sending, Buffer.from('one more'))
  // The body has no end.
  const { status, text: answer } = await answered
  t.equal(status, 413)
  t.match(answer, '"code":"PAYLOAD_TOO_LARGE"')
  sending.destroy()
  await nothingIsLeft(t, api)
})

t.test('413 comes before any of a body that declares to be too large', async (t) => {
  const api = await started(t)
  const { sending, answered } = open(api, { 'content-length': LIMIT_BYTES + 10 * MIB })
  sending.flushHeaders()
  t.equal((await answered).status, 413)
  sending.destroy()
  const waiting = open(api, { 'content-length': LIMIT_BYTES + 10 * MIB, expect: '100-continue' })
  let continued = false
  waiting.sending.once('continue', () => (continued = true))
  waiting.sending.flushHeaders()
  t.equal((await waiting.answered).status, 413)
  t.notOk(continued, 'who asks first is not told to go on')
  waiting.sending.destroy()
  await nothingIsLeft(t, api)
})

t.test('text beside the file is bounded far below it', async (t) => {
  const api = await started(t)
  const raw = multipart([
    { name: 'from', content: 'x'.repeat(100_000) },
    { name: 'file', fileName: 'a.edi', content: 'x' },
  ])
  const answer = await api.client.ask('POST', '/messages', { raw, headers: MULTIPART_HEADERS })
  t.equal(answer.status, 413)
  const many = multipart(Array.from({ length: 40 }, (_, index) => ({ name: `field-${index}`, content: 'x' })))
  t.equal((await api.client.ask('POST', '/messages', { raw: many, headers: MULTIPART_HEADERS })).status, 413)
  await nothingIsLeft(t, api)
})

t.test('after a refused upload the same connection serves the next request', async (t) => {
  const api = await started(t)
  const raw = multipart([
    { name: 'from', content: 'acme' },
    { name: 'file', fileName: 'a.edi', content: BLOCK },
    { name: 'from', content: 'acme' },
  ])
  for (let round = 0; round < 5; round += 1) {
    const answer = await api.client.ask('POST', '/messages', { raw, headers: MULTIPART_HEADERS })
    t.match(answer.error?.details, { from: 'must be sent once' })
    t.equal((await api.client.get('/health')).status, 200)
  }
  await nothingIsLeft(t, api)
})
