import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import t, { type Test } from 'tap'
import type { Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import { openLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent, encryptedTo, signedBy, type Sent } from '../../../support/as2-correspondent.ts'
import { makeCertificate } from '../../../support/certificates.ts'

// A refused message keeps what travelled and tells why; its sender has a receipt that says what may be told.
t.setTimeout(300_000)

const { waybill, loop } = await openLoop(t)
const acme = new As2Correspondent(waybill, loop)

const stranger = makeCertificate({ commonName: 'Acme Pumps' })

interface Expected {
  /** As the field `Disposition` says it, behind its mode. */
  readonly disposition: string
  readonly signedReceipt?: boolean
  readonly reason: RegExp
}

async function isRefused(t: Test, sent: Sent, expected: Expected): Promise<void> {
  const { disposition, signedReceipt = true, reason } = expected
  t.equal(sent.status, 200)
  const receipt = await acme.receiptOf(sent)
  t.equal(receipt.dispositionText, `automatic-action/MDN-sent-automatically; ${disposition}`)
  t.equal(receipt.signed, signedReceipt)
  t.equal(receipt.originalMessageId, sent.message.messageId)
  const [record, ...others] = await acme.recordsOf(sent.message.messageId)
  t.same(others, [])
  if (record === undefined) throw new Error('nothing is recorded')
  t.match(record, { status: 'Refused', deliveries: [] })
  const [line] = record.history
  t.match(line?.text, reason)
  const received = await acme.stage(record, 'received')
  t.ok(received?.equals(sent.composed.body), 'what came is kept')
  t.match(
    String(await acme.stage(record, 'headers')),
    new RegExp(`message-id: ${sent.message.messageId}`, 'i'),
  )
  const kept = await acme.stage(record, 'receipt')
  t.ok(kept?.subarray(-sent.body.length).equals(sent.body), 'the receipt is kept as it travelled')
  const delivered: readonly string[] = await readdir(loop.inbox).catch(() => [])
  t.notOk(delivered.includes(sent.message.fileName ?? ''))
}

const TEXT = { content: Buffer.from("UNB+UNOC:3'\r\n") }
const BINARY = { content: Buffer.from([0, 1, 2, 3]) }
/** Beyond what is handled in memory: it is read as it comes in. */
const LARGE_TEXT = { content: Buffer.alloc(2 * 1024 * 1024, TEXT.content), compression: 'None' } as const
const LARGE = { content: randomBytes(2 * 1024 * 1024), compression: 'None' } as const

interface Case extends Expected {
  readonly name: string
  readonly changes: Partial<Outgoing>
  /** Default: of any content. */
  readonly contents?: readonly [small: Partial<Outgoing>, large: Partial<Outgoing>]
}

const CASES: readonly Case[] = [
  {
    name: 'of text without a signature, inside of its encryption',
    contents: [TEXT, LARGE_TEXT],
    changes: { signature: null },
    disposition: 'processed/error: insufficient-message-security',
    reason: /not signed/,
  },
  {
    name: 'of anything else without a signature, inside of its encryption',
    contents: [BINARY, LARGE],
    changes: { signature: null },
    // Who alters a ciphertext must not learn what it decrypts to.
    disposition: 'processed/error: decryption-failed',
    reason: /not signed/,
  },
  {
    name: 'without a signature, inside of an encryption that is authenticated',
    contents: [BINARY, LARGE],
    changes: { signature: null, encryption: { ...encryptedTo(loop.globex.keys), algorithm: 'AES256-GCM' } },
    disposition: 'processed/error: insufficient-message-security',
    reason: /not signed/,
  },
  {
    name: 'signed by a stranger, inside of its encryption',
    changes: { signature: signedBy(stranger) },
    disposition: 'processed/error: authentication-failed',
    reason: /not of any certificate that is known/,
  },
  {
    name: 'without a signature and without encryption',
    contents: [{ compression: 'None' }, LARGE],
    changes: { signature: null, encryption: null },
    disposition: 'processed/error: insufficient-message-security',
    reason: /not signed/,
  },
  {
    name: 'that is compressed and nothing else',
    contents: [TEXT, { content: LARGE.content }],
    changes: { signature: null, encryption: null, compression: 'BeforeSigning' },
    disposition: 'processed/error: insufficient-message-security',
    // It is not expanded, so that nobody knows whether it was signed.
    reason: /not encrypted/,
  },
  {
    name: 'without encryption',
    changes: { encryption: null },
    disposition: 'processed/error: insufficient-message-security',
    reason: /not encrypted/,
  },
  {
    name: 'signed by a stranger who bears the name of the partner',
    changes: { signature: signedBy(stranger), encryption: null },
    disposition: 'processed/error: authentication-failed',
    reason: /not of any certificate that is known/,
  },
  {
    name: 'encrypted to a certificate that is not ours',
    changes: { encryption: encryptedTo(stranger) },
    disposition: 'processed/error: decryption-failed',
    reason: /not encrypted to any of our/,
  },
  {
    name: 'from a partner that is not known',
    changes: { as2From: 'STRANGER' },
    disposition: 'processed/error: unknown-trading-relationship',
    reason: /STRANGER/,
  },
  {
    name: 'to an organization that is not known',
    changes: { as2To: 'NOBODY' },
    disposition: 'processed/error: unknown-trading-relationship',
    signedReceipt: false,
    reason: /NOBODY/,
  },
  {
    name: 'from a name whose case differs',
    changes: { as2From: 'Acme-AS2' },
    disposition: 'processed/error: unknown-trading-relationship',
    reason: /Acme-AS2/,
  },
  {
    name: 'whose sender is its receiver',
    changes: { as2From: 'GLOBEX AS2' },
    disposition: 'failed/failure: sender-equals-receiver',
    reason: /Both AS2-From and AS2-To are GLOBEX AS2/,
  },
]

for (const { name, changes, contents = [{}, LARGE], ...expected } of CASES) {
  const [small, large] = contents
  void t.test(`a message ${name} is refused: ${expected.disposition}`, async (t) => {
    await isRefused(t, await acme.send({ ...small, ...changes }), expected)
  })
  void t.test(`and so is one of 2 MiB ${name}`, async (t) => {
    await isRefused(t, await acme.send({ ...large, ...changes }), expected)
  })
}

void t.test('what the profile does not demand is taken', async (t) => {
  await acme.profile('acme', { require_signed: false, require_encrypted: false })
  const sent = await acme.send({ signature: null, encryption: null })
  await acme.profile('acme', { require_signed: true, require_encrypted: true })
  t.match(await acme.receiptOf(sent), { disposition: { type: 'processed', modifier: null } })
})

void t.test('a wrong signature is refused also where none is demanded', async (t) => {
  await acme.profile('acme', { require_signed: false, require_encrypted: false })
  const sent = await acme.send({ signature: signedBy(stranger), encryption: null })
  await acme.profile('acme', { require_signed: true, require_encrypted: true })
  t.match(await acme.receiptOf(sent), { disposition: { modifier: { text: 'authentication-failed' } } })
})

void t.test('a refusal without a receipt that was asked for is told by the HTTP status', async (t) => {
  const sent = await acme.send({ receipt: null, encryption: null })
  t.equal(sent.status, 400)
  t.notMatch(sent.body.toString(), /not encrypted/, 'the reason is for us alone')
  t.match(await acme.recordsOf(sent.message.messageId), [
    { status: 'Refused', protocols: { as2: { receipt: null } } },
  ])
})
