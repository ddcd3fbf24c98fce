import { randomBytes, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { composeMessage, type Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import { micEquals } from '../../../../actors/as2/protocol/mic.ts'
import { readReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { sendFiles, startProgram } from '../../../support/as2-attachments.ts'
import { setUpLoop, startLoop } from '../../../support/as2-loop.ts'
import { allMessages, type ExchangedMessage } from '../../../support/exchanged-messages.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

t.setTimeout(600_000)

const directory = await temporaryDirectory(t)
const waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop = await setUpLoop(waybill, { directory })
await waybill.request('PUT', '/plugins/configs/file-writer/writer', { path_pattern: '{id}/{filename}' })
await startLoop(waybill)
// What is configured counts for messages of one file alone.
const posts = await startProgram(t, waybill, { content_type: 'application/edifact' })

interface Attachments {
  readonly attachments: readonly { file_name: string; content_type: string; size_bytes: number }[] | null
  readonly attachment_count: number | null
}

type Found = ExchangedMessage & {
  readonly content_type: string
  readonly protocols: { readonly as2?: Attachments }
}

/** The inbound message of an AS2 message id, when it is in this status. */
async function arrived(messageId: string, status = 'Delivered'): Promise<Found> {
  let found: Found | undefined
  await until(async () => {
    const all = (await allMessages(waybill)) as Found[]
    found = all.find(
      ({ direction, protocols }) =>
        direction === 'inbound' &&
        (protocols.as2 as { message_id?: string } | undefined)?.message_id === messageId,
    )
    return found?.status === status
  }, 120_000)
  if (found === undefined) throw new Error(`${messageId} has not arrived`)
  return found
}

const filesOf = async ({ id }: { id: string }): Promise<Record<string, Buffer>> => {
  const names = await readdir(join(loop.inbox, id))
  const read = names.map(async (name) => [name, await readFile(join(loop.inbox, id, name))] as const)
  return Object.fromEntries(await Promise.all(read))
}

/** A message as a partner sends it: its bytes are made here, and signed and encrypted as they stand. */
async function post(contentType: string, lines: readonly string[], changes: Partial<Outgoing> = {}) {
  const { acme, globex } = loop
  const messageId = `<${randomUUID()}@acme>`
  const composed = await composeMessage({
    as2From: 'ACME-AS2',
    as2To: 'GLOBEX AS2',
    messageId,
    subject: null,
    date: new Date(),
    fileName: null,
    contentType,
    content: Buffer.from(lines.join('\r\n')),
    compression: 'None',
    signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...acme.keys },
    encryption: { algorithm: 'AES256-CBC', keyTransport: 'PKCS1', certificate: globex.keys.certificate },
    receipt: { signed: true, asyncUrl: null },
    product: 'Partner/1.0',
    ...changes,
  })
  const response = await fetch(loop.receiverUrl, {
    method: 'POST',
    headers: composed.headers.map(([name, value]) => [name, value]),
    body: new Uint8Array(composed.body),
  })
  const receipt = await readReceipt({
    headers: [...response.headers],
    body: Buffer.from(await response.arrayBuffer()),
    signers: [globex.keys.certificate],
  })
  return { composed, messageId, receipt }
}

async function isTaken(t: Test, { composed, receipt }: Awaited<ReturnType<typeof post>>): Promise<void> {
  t.match(receipt.disposition, { type: 'processed', modifier: null })
  t.ok(receipt.mic !== null && micEquals(receipt.mic, composed.mic), 'the MIC is that of what was signed')
}

const ODD = [
  'A preamble, which nobody reads.',
  '--=_odd',
  '',
  'no headers',
  '--=_odd  ',
  'Content-Type: application/xml;',
  ' name="=?UTF-8?Q?R=C3=BCckgabe.xml?="',
  'Content-Transfer-Encoding: quoted-printable',
  'Content-ID: <root@acme>',
  '',
  '<a b=3D"c"/>',
  '--=_odd',
  `Content-Disposition: attachment; filename="..\\..\\C:\\order 4711.pdf"`,
  'Content-Transfer-Encoding: base64',
  '',
  'JVBERi0x',
  '--=_odd--',
  'An epilogue.',
]

t.test(
  'a message with three attachments of odd forms is one message, whose files keep their names',
  async (t) => {
    const type = 'multipart/related; start="<root@acme>"; type="application/xml"; boundary="=_odd"'
    const sent = await post(type, ODD)
    await isTaken(t, sent)
    const message = await arrived(sent.messageId)
    t.match(message, { file_name: 'Rückgabe.xml', content_type: type })
    t.same(message.protocols.as2?.attachments, [
      {
        file_name: 'Rückgabe.xml',
        content_type: 'application/xml; name="=?UTF-8?Q?R=C3=BCckgabe.xml?="',
        size_bytes: 10,
      },
      { file_name: `${message.id}-1.bin`, content_type: 'application/octet-stream', size_bytes: 10 },
      { file_name: 'order 4711.pdf', content_type: 'application/octet-stream', size_bytes: 6 },
    ])
    t.equal(message.protocols.as2?.attachment_count, 3)
    t.same(await filesOf(message), {
      [`${message.id}-1.bin`]: Buffer.from('no headers'),
      'Rückgabe.xml': Buffer.from('<a b="c"/>'),
      'order 4711.pdf': Buffer.from('%PDF-1'),
    })
    t.same(posts.at(-1), { contentType: type, body: Buffer.from(ODD.join('\r\n')) })
  },
)

t.test('large attachments come out byte for byte, encoded ones too', async (t) => {
  const large = randomBytes(3_000_000)
  const nearly = Buffer.from('\r\n--=_larg\r\n--=_large-\r\n--=_largest\r\n'.repeat(60_000))
  const base64 = large.toString('base64').match(/.{1,76}/g) ?? []
  const body = [
    '--=_large',
    'Content-Disposition: attachment; filename=encoded.bin',
    'Content-Transfer-Encoding: base64',
    '',
    ...base64,
    '--=_large',
    'Content-Disposition: attachment; filename=nearly.txt',
    '',
    nearly.toString('latin1'),
    '--=_large--',
  ]
  const sent = await post('multipart/related; boundary="=_large"', body)
  await isTaken(t, sent)
  const message = await arrived(sent.messageId)
  t.match(message.protocols.as2?.attachments, [{ size_bytes: large.length }, { size_bytes: nearly.length }])
  const files = await filesOf(message)
  t.ok(files['encoded.bin']?.equals(large))
  t.ok(files['nearly.txt']?.equals(nearly))
})

t.test('multipart/mixed counts as several files, and equal names make as many files', async (t) => {
  const part = (name: string, text: string): string[] => [
    '--x',
    'Content-Type: text/plain',
    `Content-Disposition: attachment; filename="${name}"`,
    '',
    text,
  ]
  const body = [
    ...part('same.txt', 'one'),
    ...part('SAME.txt', 'two'),
    ...part('same.txt', 'three'),
    '--x--',
    '',
  ]
  const sent = await post('multipart/mixed; boundary=x', body, { signature: null, encryption: null })
  // The profile demands both.
  t.match(sent.receipt.disposition, { modifier: { text: 'insufficient-message-security' } })
  const again = await post('multipart/mixed; boundary=x', body, { compression: 'BeforeSigning' })
  await isTaken(t, again)
  const message = await arrived(again.messageId)
  t.match(message.protocols.as2?.attachments, [
    { file_name: 'same.txt' },
    { file_name: 'SAME.txt' },
    { file_name: 'same.txt' },
  ])
  t.same(await filesOf(message), {
    'same.txt': Buffer.from('one'),
    'SAME (2).txt': Buffer.from('two'),
    'same (3).txt': Buffer.from('three'),
  })
})

t.test('a content type that is too long for a record keeps its boundary', async (t) => {
  const type = `multipart/related; x-of-the-partner="${'x'.repeat(820)}"; type="text/plain"; boundary="a b"`
  const sent = await post(type, ['--a b', '', 'content', '--a b--'])
  await isTaken(t, sent)
  const message = await arrived(sent.messageId)
  t.equal(message.content_type, type, 'while a header line can hold it')
  t.same(Object.values(await filesOf(message)), [Buffer.from('content')])
})

t.test('a malformed multipart is refused with the reason, and kept with its payloads', async (t) => {
  const cases: readonly (readonly [reason: string, type: string, lines: readonly string[]])[] = [
    ['no closing delimiter', 'multipart/related; boundary=x', ['--x', '', 'cut off']],
    ['no closing delimiter', 'multipart/related; boundary=x', ['--x', '', 'large'.repeat(500_000)]],
    ['no boundary', 'multipart/related', ['--x', '', 'a', '--x--']],
    ['too many parts', 'multipart/related; boundary=x', [...Array<string>(1_001).fill('--x\r\n'), '--x--']],
  ]
  for (const [reason, type, lines] of cases) {
    const sent = await post(type, lines)
    t.match(
      sent.receipt.disposition,
      { modifier: { kind: 'error', text: 'unexpected-processing-error' } },
      reason,
    )
    const message = await arrived(sent.messageId, 'Refused')
    t.match(message.history[0]?.text, new RegExp(reason))
    t.ok((await stageOf(message.id, 'received')).length > 0)
  }
})

t.test(
  'three files that are sent by hand arrive as three files, and go on to a program with their names',
  async (t) => {
    const contents = [Buffer.from("UNB+UNOC:3'"), randomBytes(3_000_000), Buffer.alloc(0)]
    const names = ['Bestellung ü.edi', 'drawing; A.pdf', '日本語.txt']
    const files = contents.map((content, index) => new File([content], names[index] ?? ''))
    const id = await sendFiles(waybill, { from: 'acme', to: 'globex', target: 'sender' }, files)
    const message = await arrived(`<${id}@waybill>`)
    const written = await filesOf(message)
    const expected = ['Bestellung ü.edi', 'drawing; A.pdf', '日本語.txt']
    t.same(Object.keys(written).toSorted(), expected.toSorted())
    for (const [index, name] of expected.entries())
      t.ok(written[name]?.equals(contents[index] ?? Buffer.from('?')), name)

    const sent = await waybill.request<Found>('GET', `/messages/${id}`)
    t.match(sent, {
      status: 'Delivered',
      file_name: names[0],
      protocols: { as2: { receipt: { mic_matches: true } } },
    })
    const listed = names.map((file_name, index) => ({ file_name, size_bytes: contents[index]?.length }))
    t.match(sent.protocols.as2?.attachments, listed, 'the sender lists what it has sent')
    t.match(message.protocols.as2?.attachments, listed)
    t.equal(message.content_type, sent.content_type, 'the multipart travels as it stands')
    const [payload, post] = [await stageOf(id, 'unpacked'), posts.at(-1)]
    t.ok((await stageOf(message.id, 'unpacked')).equals(payload))
    t.ok(post?.body.equals(payload))
    t.equal(post?.contentType, sent.content_type)

    await waybill.request('POST', `/messages/${message.id}/deliveries/${deliveryOf(message)}/redeliver`)
    await until(async () => Object.keys(await filesOf(message)).length === 6)
    t.ok((await filesOf(message))['Bestellung ü (2).edi']?.equals(contents[0] ?? Buffer.from('?')))
  },
)

async function stageOf(id: string, stage: string): Promise<Buffer> {
  const answer = await fetch(`${waybill.url}/api/v1/messages/${id}/payload?stage=${stage}`)
  return Buffer.from(await answer.arrayBuffer())
}

function deliveryOf(message: Found): number {
  const deliveries = message.deliveries as unknown as readonly { id: number; target: string }[]
  return deliveries.find(({ target }) => target === 'writer')?.id ?? 0
}
