import { createECDH, generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { BerReader } from '../../../../actors/as2/protocol/asn1/reader.ts'
import { algorithmIdentifier, NULL, sequence, toBuffer } from '../../../../actors/as2/protocol/asn1/writer.ts'
import { prepareCertificate, weakness } from '../../../../actors/as2/protocol/certificate.ts'
import { CURVES } from '../../../../actors/as2/protocol/key-agreement-algorithms.ts'
import { makeCertificate } from '../../../support/certificates.ts'

const authority = makeCertificate({ commonName: 'CA', authority: true })

/** The certificate as if it had been signed with another algorithm; its signature is not looked at here. */
function signedWith(certificate: Buffer, oid: string): Buffer {
  const fields = new BerReader(certificate).next().children()
  const tbs = fields.next().raw
  fields.next()
  return toBuffer(sequence(tbs, algorithmIdentifier(oid, NULL), fields.next().raw))
}

t.test('A certificate that counts, but is weak, is told of', (t) => {
  const sound = makeCertificate({ commonName: 'Sound' }).certificate
  const short = makeCertificate({ commonName: 'Short', keyBits: 1024 }).certificate
  t.equal(weakness(sound), null)
  t.equal(weakness(makeCertificate({ commonName: 'Curve', keyType: 'ec' }).certificate), null)
  t.equal(weakness(short), 'its RSA key has 1024 bits, and should have 2048 or more')
  t.equal(weakness(signedWith(sound, '1.2.840.113549.1.1.5')), 'it was signed with SHA-1')
  t.equal(weakness(signedWith(sound, '1.2.840.10045.4.1')), 'it was signed with SHA-1')
  t.match(weakness(signedWith(short, '1.2.840.113549.1.1.4')), /1024 bits.*, and it was signed with MD5$/)
  t.throws(() => weakness(Buffer.from('no certificate')), { name: 'CertificateError' })
  t.end()
})

t.test('A key that is broken, or on a curve that nobody chose, counts for nothing', (t) => {
  const unsound = (wishes: object): string | null =>
    prepareCertificate(makeCertificate({ commonName: 'X', issuer: authority, ...wishes }).certificate).unsound
  t.equal(unsound({}), null)
  t.equal(unsound({ keyBits: 1024 }), null)
  t.match(unsound({ keyBits: 768 }), '768 bits is shorter than 1024')
  for (const curve of Object.keys(CURVES)) t.equal(unsound({ keyType: 'ec', curve }), null, curve)
  for (const curve of ['prime192v1', 'secp160r1', 'sect283k1', 'brainpoolP192r1']) {
    t.match(unsound({ keyType: 'ec', curve }), curve)
  }
  t.match(unsound({ keyType: 'ec', raw: { publicKeyInfo: onOwnCurve() } }), 'without a name')
  t.end()
})

/** A key on P-256 with another generator: its maker knows the key to any point (CVE-2020-0601). */
function onOwnCurve(): Buffer {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256', paramEncoding: 'explicit' })
  const info = publicKey.export({ type: 'spki', format: 'der' })
  const generator = Buffer.from('046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296', 'hex')
  info.copy(info, info.indexOf(generator), info.length - 65)
  return info
}

t.test('Each curve has the object identifier and the size that it is known by', (t) => {
  for (const [name, { oid, bits }] of Object.entries(CURVES)) {
    const info = generateKeyPairSync('ec', { namedCurve: name }).publicKey.export({
      type: 'spki',
      format: 'der',
    })
    const algorithm = new BerReader(info).next().children().next().children()
    algorithm.next()
    t.equal(algorithm.next().oid(), oid, name)
    t.equal(createECDH(name).generateKeys().length, 1 + 2 * Math.ceil(bits / 8), name)
  }
  t.end()
})
