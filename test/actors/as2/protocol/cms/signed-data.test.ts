import t from 'tap'
import {
  objectIdentifier,
  octetString,
  setOf,
  toBuffer,
} from '../../../../../actors/as2/protocol/asn1/writer.ts'
import type { Part } from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { readMessage } from '../../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../../actors/as2/protocol/incoming.ts'
import { makeCertificate } from '../../../../support/certificates.ts'
import { attribute, attributesOf, digestOf, OID, signedData, signerInfo } from '../crafted-cms.ts'

const sender = makeCertificate({ commonName: 'Sender' })
const stranger = makeCertificate({ commonName: 'Stranger' })
const CONTENT = Buffer.from('Content-Type: text/plain\r\n\r\nhello')

function read(body: Buffer): Promise<Incoming> {
  return readMessage({
    headers: [
      ['AS2-From', 'sender'],
      ['AS2-To', 'receiver'],
      ['Content-Type', 'application/pkcs7-mime'],
    ],
    body,
    decryption: [],
    signers: [sender.certificate],
    maxContentBytes: 1_000_000,
  })
}

const UNAUTHENTIC = { name: 'Refusal', modifier: 'authentication-failed' }

t.test('Signed attributes must name the content and its digest, once each', async (t) => {
  const [type, digest] = attributesOf(CONTENT) as [Part, Part]
  const other = octetString(Buffer.alloc(32))
  const signedBy = (...attributes: Part[]): Buffer => signedData(CONTENT, signerInfo(sender, attributes))
  t.same((await read(signedBy(type, digest))).content, Buffer.from('hello'))
  const wrong: Record<string, Buffer> = {
    'no content type': signedBy(digest),
    'another content type': signedBy(attribute(OID.contentType, objectIdentifier(OID.envelopedData)), digest),
    'no digest': signedBy(type),
    'two values of the digest': signedBy(type, attribute(OID.messageDigest, digestOf(CONTENT), other)),
    'the digest twice': signedBy(type, digest, attribute(OID.messageDigest, other)),
    'a digest that is no octet string': signedBy(
      type,
      attribute(OID.messageDigest, objectIdentifier(OID.data)),
    ),
  }
  for (const [name, body] of Object.entries(wrong)) await t.rejects(read(body), UNAUTHENTIC, name)
  await t.rejects(read(signedBy(type, attribute(OID.messageDigest, other))), {
    name: 'Refusal',
    modifier: 'integrity-check-failed',
  })
})

t.test('There must be one signer, and the partner be it', async (t) => {
  const ours = signerInfo(sender, attributesOf(CONTENT))
  const theirs = signerInfo(stranger, attributesOf(CONTENT))
  await t.rejects(read(signedData(CONTENT)), UNAUTHENTIC, 'no signer')
  await t.rejects(read(signedData(CONTENT, ours, ours)), UNAUTHENTIC, 'two signers')
  await t.rejects(read(signedData(CONTENT, ours, theirs)), UNAUTHENTIC, 'a second signer')
  await t.rejects(read(signedData(CONTENT, theirs)), UNAUTHENTIC, 'another signer')
})

t.test('Signed attributes passed off as content are refused', async (t) => {
  const attributes = toBuffer(setOf(...attributesOf(CONTENT)))
  await t.rejects(read(signedData(attributes, signerInfo(sender, attributes))), UNAUTHENTIC)
})

t.test('A signature without its content is refused', async (t) => {
  await t.rejects(read(signedData(null, signerInfo(sender, attributesOf(CONTENT)))), {
    name: 'Refusal',
    modifier: 'unexpected-processing-error',
  })
})
