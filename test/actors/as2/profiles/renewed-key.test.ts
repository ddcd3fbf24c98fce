import { createHash, randomBytes, randomUUID, sign } from 'node:crypto'
import t, { type Test } from 'tap'
import {
  algorithmIdentifier,
  element,
  NULL,
  octetString,
} from '../../../../actors/as2/protocol/asn1/writer.ts'
import type { Receipt } from '../../../../actors/as2/protocol/receipt.ts'
import { As2Correspondent, signedBy, type Answered } from '../../../support/as2-correspondent.ts'
import { openLoop } from '../../../support/as2-loop.ts'
import { extension, makeCertificate, type TestCertificate } from '../../../support/certificates.ts'
import type { ExchangedMessage } from '../../../support/exchanged-messages.ts'
import { attributesOf, OID, signedBytes, signedData, signerInfoOf } from '../protocol/crafted-cms.ts'

// A partner renews its certificate and keeps the key: what it signs is verified by the key, whichever of the
// certificates the signature names. One that is valid now is enough.
t.setTimeout(300_000)

const { waybill, loop } = await openLoop(t)
const acme = new As2Correspondent(waybill, loop)

interface Renewed {
  readonly keys: TestCertificate
  /** Of the extension, which names this one alone. */
  readonly subjectKeyIdentifier: Buffer
  readonly id: number
}

async function renewed(
  commonName: string,
  validity: { readonly days?: number; readonly age?: number } = {},
  key = loop.acme.keys,
): Promise<Renewed> {
  const subjectKeyIdentifier = randomBytes(20)
  const extensions = [extension('2.5.29.14', false, octetString(subjectKeyIdentifier))]
  const keys = makeCertificate({ commonName, key, ...validity, raw: { extensions } })
  return { keys, subjectKeyIdentifier, id: await acme.store(keys) }
}

const valid = await renewed('valid')
const anotherValid = await renewed('another valid')
const expired = await renewed('expired', { days: -10 })
const early = await renewed('early', { age: -10 })
/** In no profile. */
const unknown = await renewed('unknown')
const ofAnotherKey = await renewed('of another key', {}, makeCertificate({ commonName: 'another key' }))

/** A message, and what came back. */
interface Sent {
  readonly messageId: string
  readonly answer: Answered
}

const byIssuerAndSerial = async ({ keys }: Renewed, content: Buffer): Promise<Sent> => {
  const sent = await acme.send({ signature: signedBy(keys), content, compression: 'None' })
  return { messageId: sent.message.messageId, answer: sent }
}

/** Within its signature, since what we make ourselves names no certificate by its subject key identifier. */
const bySubjectKeyIdentifier = async (
  { keys, subjectKeyIdentifier }: Renewed,
  content: Buffer,
): Promise<Sent> => {
  const messageId = `<${randomUUID()}@acme>`
  const part = Buffer.concat([Buffer.from('Content-Type: application/edifact\r\n\r\n'), content])
  const attributes = attributesOf(part)
  const info = signerInfoOf(keys, {
    attributes,
    algorithm: algorithmIdentifier(OID.rsa, NULL),
    signature: sign('sha256', signedBytes(attributes), keys.privateKey),
    identifier: element(0x80, subjectKeyIdentifier),
  })
  const headers = [
    ['AS2-Version', '1.2'],
    ['AS2-From', 'ACME-AS2'],
    ['AS2-To', '"GLOBEX AS2"'],
    ['Message-ID', messageId],
    ['Content-Type', 'application/pkcs7-mime; smime-type=signed-data; name=smime.p7m'],
    ['Disposition-Notification-To', 'acme@example.com'],
    [
      'Disposition-Notification-Options',
      'signed-receipt-protocol=optional, pkcs7-signature; signed-receipt-micalg=optional, sha-256',
    ],
  ] as const
  return { messageId, answer: await acme.post(headers, signedData(part, info)) }
}

async function outcome({ messageId, answer }: Sent): Promise<[Receipt, ExchangedMessage]> {
  const [record, ...others] = await acme.recordsOf(messageId)
  if (record === undefined || others.length > 0) throw new Error(`${messageId} is not recorded once`)
  return [await acme.receiptOf(answer), record]
}

async function isTaken(t: Test, sent: Sent, named: Renewed, fingerprintOf: Renewed): Promise<void> {
  const [receipt, record] = await outcome(sent)
  t.match(receipt, { signed: true, disposition: { type: 'processed', modifier: null } })
  t.notMatch(record.history.map(({ text }) => text).join('\n'), /though|expired|valid from/)
  const sha256 = createHash('sha256').update(fingerprintOf.keys.certificate).digest('hex')
  t.match(record.protocols.as2, { signer_fingerprint_sha256: sha256 }, `named: ${nameOf(named)}`)
}

const nameOf = ({ keys }: Renewed): string => keys.subject.toString('latin1').replaceAll(/[^ -~]/g, '')

const WAYS = {
  'by issuer and serial number': byIssuerAndSerial,
  'by its subject key identifier': bySubjectKeyIdentifier,
}
const SIZES = { '': Buffer.from("UNB+UNOC:3'"), ' too large for memory': randomBytes(2 * 1024 * 1024) }

const CHANGE_OVERS: Readonly<Record<string, { readonly current: Renewed; readonly previous: Renewed }>> = {
  'the previous one has expired': { current: valid, previous: expired },
  'the new one is not valid yet': { current: early, previous: valid },
  'both are valid': { current: valid, previous: anotherValid },
}

await acme.profile('acme', { require_encrypted: false })

for (const [state, { current, previous }] of Object.entries(CHANGE_OVERS)) {
  for (const [size, content] of Object.entries(SIZES)) {
    for (const [way, send] of Object.entries(WAYS)) {
      void t.test(
        `a message${size} signed with the key of both certificates is taken, whichever is named ${way}: ${state}`,
        async (t) => {
          await acme.profile('acme', {
            partner_signing_certificate_id: current.id,
            previous_partner_signing_certificate_id: previous.id,
          })
          await isTaken(t, await send(current, content), current, current)
          await isTaken(t, await send(previous, content), previous, previous)
          await isTaken(t, await send(unknown, content), unknown, current)
        },
      )
    }
  }
}

for (const [size, content] of Object.entries(SIZES)) {
  void t.test(`a message${size} is refused where none of the certificates of its key is valid`, async (t) => {
    await acme.profile('acme', {
      partner_signing_certificate_id: early.id,
      previous_partner_signing_certificate_id: expired.id,
    })
    for (const [named, reason] of [
      [early, /certificate early \(id \d+\) is valid from 20\S+ on only/],
      [expired, /certificate expired \(id \d+\) expired on 20/],
      [unknown, /certificate early \(id \d+\) is valid from 20\S+ on only/],
    ] as const) {
      const [receipt, record] = await outcome(await byIssuerAndSerial(named, content))
      t.match(receipt, { disposition: { modifier: { kind: 'error', text: 'authentication-failed' } } })
      t.equal(record.status, 'Refused')
      t.match(record.history[0]?.text, reason)
    }
  })

  void t.test(`nor does a valid one of another key help a message${size}`, async (t) => {
    for (const [current, previous] of [
      [ofAnotherKey, expired],
      [expired, ofAnotherKey],
    ] as const) {
      await acme.profile('acme', {
        partner_signing_certificate_id: current.id,
        previous_partner_signing_certificate_id: previous.id,
      })
      for (const named of [expired, ofAnotherKey, unknown]) {
        // The name is that of another one, the key is that of the expired one.
        const keys = { ...named.keys, privateKey: expired.keys.privateKey }
        const [receipt, record] = await outcome(await byIssuerAndSerial({ ...named, keys }, content))
        t.match(receipt, { disposition: { modifier: { kind: 'error', text: 'authentication-failed' } } })
        t.match(record.history[0]?.text, /certificate expired \(id \d+\) expired on 20/)
      }
    }
  })
}

void t.test('where expired ones count, one of the key that is valid needs no word of that', async (t) => {
  await acme.profile('acme', {
    partner_signing_certificate_id: valid.id,
    previous_partner_signing_certificate_id: expired.id,
    accept_expired_certificates: true,
  })
  await isTaken(t, await byIssuerAndSerial(expired, SIZES['']), expired, expired)
})
