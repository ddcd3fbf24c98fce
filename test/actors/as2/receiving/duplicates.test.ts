import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { setUpLoop, startLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent, type Answered, type Sent } from '../../../support/as2-correspondent.ts'
import { countMessages } from '../../../support/exchanged-messages.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

// The same AS2-From, AS2-To and Message-ID is one message, whose stored receipt answers all.
t.setTimeout(300_000)

const TIMES = 100
/** Of repeats, in the history of a message. */
const MAX_LINES = 100

const directory = await temporaryDirectory(t)
let waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop = await setUpLoop(waybill, { directory })
await startLoop(waybill)
let acme = new As2Correspondent(waybill, loop)

const again = ({ composed }: Sent): Promise<Answered> => acme.post(composed.headers, composed.body)

const digest = ({ status, body }: Answered): string =>
  `${status} ${createHash('sha256').update(body).digest('hex')}`

/** The headers of a receipt, but for those of the connection. */
const receiptHeaders = ({ headers }: Answered): string[] =>
  headers
    .filter(([name]) => !['date', 'connection', 'keep-alive'].includes(name) || name.startsWith('as2'))
    .map(([name, value]) => `${name}: ${value}`)

async function isOneMessage(t: Test, sent: Sent, repeats: number): Promise<void> {
  const records = await acme.recordsOf(sent.message.messageId)
  t.equal(records.length, 1)
  const lines = records[0]?.history.filter(({ kind }) => kind === 'duplicate_received') ?? []
  // Those of the same moment may get past the bound.
  t.ok(
    lines.length >= Math.min(repeats, MAX_LINES) && lines.length <= repeats,
    'each of the first repeats has its line',
  )
  await until(async () => (await readdir(loop.inbox)).includes(sent.message.fileName ?? ''))
  const copies = (await readdir(loop.inbox)).filter((name) =>
    name.includes(sent.message.fileName?.slice(0, 36) ?? ''),
  )
  t.same(copies, [sent.message.fileName], 'one file is delivered')
}

void t.test(`the same message ${TIMES} times at once, and across a restart`, async (t) => {
  const sent = await acme.send()
  const answers = await Promise.all(Array.from({ length: TIMES }, () => again(sent)))
  t.same([...new Set(answers.map(digest))], [digest(sent)], 'the receipt is the same, byte for byte')
  t.same(receiptHeaders(answers[0] ?? sent), receiptHeaders(sent))
  await isOneMessage(t, sent, TIMES)

  await waybill.stop()
  waybill = await Waybill.start({ directory })
  acme = new As2Correspondent(waybill, loop)
  await until(async () => (await again(sent).catch(() => null))?.status === 200)
  const restarted = await Promise.all(Array.from({ length: TIMES }, () => again(sent)))
  t.same([...new Set(restarted.map(digest))], [digest(sent)], 'and so it is after the restart')
  await isOneMessage(t, sent, 2 * TIMES + 1)
})

void t.test(`one that was not here before comes ${TIMES} times at once: one is taken`, async (t) => {
  const message = acme.message()
  const sends = await Promise.all(Array.from({ length: TIMES }, () => acme.send(message)))
  t.equal(new Set(sends.map(digest)).size, 1, 'all get the receipt of the one')
  const [sent] = sends
  if (sent === undefined) throw new Error('nothing was sent')
  await isOneMessage(t, sent, TIMES - 1)
})

void t.test('one of 2 MiB comes ten times at once: one is taken', async (t) => {
  const message = acme.message({ content: randomBytes(2 * 1024 * 1024), compression: 'None' })
  const sends = await Promise.all(Array.from({ length: 10 }, () => acme.send(message)))
  t.equal(new Set(sends.map(digest)).size, 1, 'all get the receipt of the one')
  const [sent] = sends
  if (sent === undefined) throw new Error('nothing was sent')
  await isOneMessage(t, sent, 9)
})

void t.test('a message that was refused before may be sent again, and is taken once', async (t) => {
  const sent = await acme.send({}, (body) => body.subarray(0, -40))
  t.match(await acme.receiptOf(sent), { disposition: { modifier: { kind: 'error' } } })
  const second = await again(sent)
  const third = await again(sent)
  t.match(await acme.receiptOf(second), { disposition: { type: 'processed', modifier: null } })
  t.equal(digest(third), digest(second))
  const statuses = (await acme.recordsOf(sent.message.messageId)).map(({ status }) => status)
  t.same([statuses.length, statuses.filter((each) => each === 'Refused').length], [2, 1])
})

void t.test('the same Message-ID between others is another message', async (t) => {
  const sent = await acme.send()
  const refusedBefore = await countMessages(waybill, 'Refused')
  await acme.send({ ...sent.message, as2From: 'OTHER' })
  t.equal(await countMessages(waybill, 'Refused'), refusedBefore + 1)
  t.equal((await acme.recordsOf(sent.message.messageId)).length, 2)
})

void t.test('a message without an identifier is never taken for a repeat', async (t) => {
  const { composed } = await acme.send()
  const nameless = composed.headers.filter(([name]) => name !== 'Message-ID')
  const before = await countMessages(waybill, 'Refused')
  const answers = [await acme.post(nameless, composed.body), await acme.post(nameless, composed.body)]
  t.same(
    answers.map(({ status }) => status),
    [200, 200],
  )
  t.notSame(answers[0]?.body, answers[1]?.body)
  t.equal(await countMessages(waybill, 'Refused'), before)
})
