import { createHash, randomBytes, sign } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import {
  algorithmIdentifier,
  element,
  NULL,
  octetString,
} from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { prepareCertificate } from '../../../../../actors/as2/protocol/certificate.ts'
import type { ReceivedMessage } from '../../../../../actors/as2/protocol/incoming.ts'
import { composeReceipt, readReceipt } from '../../../../../actors/as2/protocol/receipt.ts'
import { extension, makeCertificate } from '../../../../support/certificates.ts'
import type { KeyPair, TestCertificate } from '../../../../support/certificates.ts'
import { receiptWithin } from '../opaque-signed.ts'
import { attributesOf, OID, signedBytes, signedData, signerInfoOf } from '../crafted-cms.ts'
import { assertSame } from '../stream/both-readers.ts'

/** Which of a partner's certificates a signature is of: those of the key that made it, whichever it names. */

const CONTENT = Buffer.from('Content-Type: text/plain\r\n\r\nhello')
const ATTRIBUTES = attributesOf(CONTENT)
const BYTES = signedBytes(ATTRIBUTES)

interface Known extends TestCertificate {
  readonly key: number
  /** Of the extension, which names this one alone; another names all of the same key. */
  readonly ownIdentifier: Buffer
}

function known(key: number, pair?: KeyPair): Known {
  const ownIdentifier = randomBytes(20)
  const extensions = [extension('2.5.29.14', false, octetString(ownIdentifier))]
  const made = makeCertificate({ commonName: 'Partner', raw: { extensions }, ...(pair && { key: pair }) })
  return { ...made, key, ownIdentifier }
}

/** Two keys, each with three certificates of one name. */
const FIRST_OF_KEYS = [known(0), known(1)] as const
const CERTIFICATES = FIRST_OF_KEYS.flatMap((first) => [
  first,
  known(first.key, first),
  known(first.key, first),
])

const identifier = {
  'issuer and serial number': ({ certificate }: Known) =>
    prepareCertificate(certificate).issuerAndSerialNumber,
  'its own key identifier': ({ ownIdentifier }: Known) => element(0x80, ownIdentifier),
  'the identifier of its key': ({ certificate }: Known) =>
    element(0x80, createHash('sha1').update(prepareCertificate(certificate).publicKeyBits).digest()),
} as const
type Way = keyof typeof identifier

/** Signed with a key; `named` may be of the other one. */
function signed(key: 0 | 1, named: Known, way: Way): Buffer {
  const info = signerInfoOf(named, {
    attributes: ATTRIBUTES,
    algorithm: algorithmIdentifier(OID.rsa, NULL),
    signature: sign('sha256', BYTES, FIRST_OF_KEYS[key].privateKey),
    identifier: identifier[way](named),
  })
  return signedData(CONTENT, info)
}

const messageOf = (body: Buffer, given: readonly Known[]): ReceivedMessage => ({
  headers: [
    ['AS2-From', 'sender'],
    ['AS2-To', 'receiver'],
    ['Content-Type', 'application/pkcs7-mime'],
  ],
  body,
  decryption: [],
  signers: given.map(({ certificate }) => certificate),
  maxContentBytes: 1_000_000,
})

/** The certificate that is told first, written down here apart from the code under test. */
function shownOf(ofKey: readonly Known[], named: Known, way: Way): Known | undefined {
  const isNamed = (each: Known): boolean =>
    way === 'the identifier of its key' ? each.key === named.key : each === named
  return ofKey.find(isNamed) ?? ofKey[0]
}

const cases = fc.record({
  key: fc.constantFrom(0 as const, 1 as const),
  named: fc.constantFrom(...CERTIFICATES),
  way: fc.constantFrom(...(Object.keys(identifier) as Way[])),
  given: fc.subarray(CERTIFICATES).chain((some) => fc.shuffledSubarray(some, { minLength: some.length })),
  chunking: fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 4 }),
})

void t.test(
  'A signature is of all given certificates of its key, in memory and as a stream, and shows the one it names',
  async () => {
    await fc.assert(
      fc.asyncProperty(cases, async ({ key, named, way, given, chunking }) => {
        const outcome = await assertSame(messageOf(signed(key, named, way), given), chunking)
        const ofKey = given.filter((each) => each.key === key)
        const shown = shownOf(ofKey, named, way)
        if (shown === undefined) return outcome['modifier'] === 'authentication-failed'
        const certificates = ofKey.map(({ certificate }) => certificate)
        const expected = { certificate: shown.certificate, certificates }
        return isDeepStrictEqual(outcome['signer'], expected)
      }),
      { numRuns: 200 },
    )
  },
)

void t.test('So it is with the signature of a receipt, beside the report and around it', async (t) => {
  const [first, second, third, other] = CERTIFICATES as [Known, Known, Known, Known]
  const given = [other, first, second].map(({ certificate }) => certificate)
  for (const [named, shown] of [
    [first, first],
    [second, second],
    [third, first],
  ] as const) {
    const { certificate, privateKey } = named
    const unsigned = {
      as2From: 'the receiver',
      as2To: 'sender',
      messageId: '<mdn@receiver>',
      date: new Date('2026-11-21T08:00:00Z'),
      originalMessageId: '<1@sender>',
      disposition: { type: 'processed', modifier: null } as const,
      mic: null,
      text: 'The message was received.',
      signature: null,
      product: 'Partner/1.0',
    }
    const signature = { algorithm: 'SHA256', scheme: 'PKCS1', certificate, privateKey } as const
    const beside = await composeReceipt({ ...unsigned, signature })
    const around = receiptWithin(await composeReceipt(unsigned), named)
    for (const { headers, body } of [beside, around]) {
      const { signer } = await readReceipt({ headers, body, signers: given })
      t.same(signer, {
        certificate: shown.certificate,
        certificates: [first.certificate, second.certificate],
      })
      await t.rejects(readReceipt({ headers, body, signers: [other.certificate] }), {
        name: 'Refusal',
        modifier: 'authentication-failed',
      })
    }
  }
})
