import { sign } from 'node:crypto'
import t from 'tap'
import { algorithmIdentifier } from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { readMessage } from '../../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../../actors/as2/protocol/incoming.ts'
import { makeCertificate } from '../../../../support/certificates.ts'
import type { TestCertificate } from '../../../../support/certificates.ts'
import {
  attributesOf,
  OID,
  signedBytes,
  signedData,
  signedDataWith,
  signerInfo,
  signerInfoOf,
} from '../crafted-cms.ts'

/** Signatures that are not the partner's, though some reader has taken their like for one. */

const CONTENT = Buffer.from('Content-Type: text/plain\r\n\r\nhello')
const ATTRIBUTES = attributesOf(CONTENT)

const sender = makeCertificate({ commonName: 'Sender' })
const onCurve = makeCertificate({ commonName: 'Sender', keyType: 'ec' })

function read(body: Buffer, ...signers: TestCertificate[]): Promise<Incoming> {
  return readMessage({
    headers: [
      ['AS2-From', 'sender'],
      ['AS2-To', 'receiver'],
      ['Content-Type', 'application/pkcs7-mime'],
    ],
    body,
    decryption: [],
    signers: signers.map(({ certificate }) => certificate),
    maxContentBytes: 1_000_000,
  })
}

const UNAUTHENTIC = { name: 'Refusal', modifier: 'authentication-failed' }

t.test('A signature is of the algorithm that it names, and of the digest', async (t) => {
  const bytes = signedBytes(ATTRIBUTES)
  const rsa = sign('sha256', bytes, sender.privateKey)
  const withSha1 = sign('sha1', bytes, sender.privateKey)
  const ecdsa = sign('sha256', bytes, onCurve.privateKey)
  const by = (signer: TestCertificate, oid: string, signature: Buffer, digest: string = OID.sha256): Buffer =>
    signedData(
      CONTENT,
      signerInfoOf(signer, {
        attributes: ATTRIBUTES,
        algorithm: algorithmIdentifier(oid),
        signature,
        digest,
      }),
    )
  t.ok((await read(by(sender, OID.sha256WithRsa, rsa), sender)).signed, 'the digest is named twice')
  t.ok(
    (await read(by(onCurve, OID.ecPublicKey, ecdsa), onCurve)).signed,
    'the key is named for the algorithm',
  )
  const wrong = {
    'SHA-1 named for the signature, SHA-256 for the content': by(sender, OID.sha1WithRsa, withSha1),
    'SHA-1 in the signature, SHA-256 named': by(sender, OID.sha256WithRsa, withSha1),
    'ECDSA named, RSA made': by(sender, OID.ecdsaWithSha256, rsa),
    'RSA named, ECDSA made': by(sender, OID.sha256WithRsa, ecdsa),
    'another digest in the algorithm of the curve': by(onCurve, '1.2.840.10045.4.3.4', ecdsa),
    'a digest in the place of the signature algorithm': by(sender, OID.sha256, rsa),
    'MD5 for the digest': by(sender, OID.rsa, rsa, '1.2.840.113549.2.5'),
    'an empty signature': by(sender, OID.rsa, Buffer.alloc(0)),
    'a signature of zeros on a curve': by(
      onCurve,
      OID.ecdsaWithSha256,
      Buffer.from('3006020100020100', 'hex'),
    ),
    'the same on a curve with a tail': by(onCurve, OID.ecdsaWithSha256, Buffer.concat([ecdsa, ecdsa])),
  }
  for (const [name, body] of Object.entries(wrong)) {
    await t.rejects(read(body, sender, onCurve), UNAUTHENTIC, name)
  }
  await t.rejects(read(by(onCurve, OID.rsa, rsa), onCurve), UNAUTHENTIC, 'a key of the wrong type')
})

t.test('Nobody else becomes the partner by a certificate that travels along', async (t) => {
  const authority = makeCertificate({ commonName: 'CA', authority: true })
  const issued = makeCertificate({ commonName: 'Partner', issuer: authority })
  const forger = makeCertificate({ commonName: 'Partner', issuer: authority })
  const byForger = signerInfo(forger, ATTRIBUTES)
  const rows = {
    'the certificate of the same authority': signedDataWith([forger.certificate], CONTENT, byForger),
    'with its authority': signedDataWith([forger.certificate, authority.certificate], CONTENT, byForger),
    'next to that of the partner': signedDataWith(
      [issued.certificate, forger.certificate],
      CONTENT,
      byForger,
    ),
    "under the partner's own name": signedDataWith(
      [forger.certificate],
      CONTENT,
      signerInfo({ ...forger, certificate: issued.certificate }, ATTRIBUTES),
    ),
    'the authority itself': signedDataWith(
      [authority.certificate],
      CONTENT,
      signerInfo(authority, ATTRIBUTES),
    ),
  }
  for (const [name, body] of Object.entries(rows)) await t.rejects(read(body, issued), UNAUTHENTIC, name)
  const genuine = signedDataWith([forger.certificate], CONTENT, signerInfo(issued, ATTRIBUTES))
  t.same((await read(genuine, issued)).signer?.certificate, issued.certificate)
})

t.test('A key that is too weak signs nothing, and the reason tells it', async (t) => {
  const short = makeCertificate({
    commonName: 'Short',
    keyBits: 768,
    issuer: makeCertificate({ commonName: 'CA', authority: true }),
  })
  const weakCurve = makeCertificate({ commonName: 'Weak', keyType: 'ec', curve: 'prime192v1' })
  await t.rejects(read(signedData(CONTENT, signerInfo(short, ATTRIBUTES)), short), {
    ...UNAUTHENTIC,
    reason: /768 bits is shorter than 1024/,
  })
  const onWeakCurve = signedData(CONTENT, signerInfo(weakCurve, ATTRIBUTES, OID.ecdsaWithSha256))
  await t.rejects(read(onWeakCurve, weakCurve), { ...UNAUTHENTIC, reason: /prime192v1/ })
})
