import { constants, generateKeyPairSync, sign, verify } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import t from 'tap'
import {
  algorithmIdentifier,
  integer,
  sequence,
  tagged,
} from '../../../../../actors/as2/protocol/asn1/writer.ts'
import type { Part } from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { readContentInfo } from '../../../../../actors/as2/protocol/cms/content-info.ts'
import {
  formatDetachedSignature,
  readSignedData,
} from '../../../../../actors/as2/protocol/cms/signed-data.ts'
import { digest } from '../../../../../actors/as2/protocol/mic.ts'
import { readMessage } from '../../../../../actors/as2/protocol/read.ts'
import { makeCertificate } from '../../../../support/certificates.ts'
import { attributesOf, OID, signedBytes, signedData, signerInfoOf } from '../crafted-cms.ts'

const CONTENT = Buffer.from('Content-Type: text/plain\r\n\r\nhello')
const ATTRIBUTES = attributesOf(CONTENT)
const SHA224 = '2.16.840.1.101.3.4.2.4'
const MD5 = '1.2.840.113549.2.5'
const sender = makeCertificate({ commonName: 'Sender' })

t.test('PSS is refused where its parameters contradict', async (t) => {
  const signature = sign('sha256', signedBytes(ATTRIBUTES), sender.privateKey)
  const rows: Record<string, readonly [Part, RegExp]> = {
    'empty ones': [algorithmIdentifier(OID.pss, sequence()), /another digest than the signer/],
    'a mask of no known digest': [pss(OID.sha256, SHA224, 32, 1), /mask of the PSS signature/],
    'a mask with MD5': [pss(OID.sha256, MD5, 32, 1), /mask of the PSS signature/],
    'another digest': [pss(OID.sha1, OID.sha1, 20, 1), /another digest than the signer/],
    'an unknown trailer': [pss(OID.sha256, OID.sha256, 32, 2), /out of range/],
    'a salt that no key has room for': [pss(OID.sha256, OID.sha256, 100_000, 1), /not of any certificate/],
  }
  for (const [name, [algorithm, reason]] of Object.entries(rows)) {
    const forged = signerInfoOf(sender, { attributes: ATTRIBUTES, algorithm, signature })
    const refusal = { name: 'Refusal', modifier: 'authentication-failed', reason }
    await t.rejects(read(signedData(CONTENT, forged)), refusal, name)
  }
})

t.test(
  'PSS without parameters is of the signer’s digest, with a salt of any length, as pyas2 writes it',
  async (t) => {
    const algorithm = algorithmIdentifier(OID.pss)
    const signedWith = (key: KeyObject, digest: string, saltLength: number) => {
      const padding = constants.RSA_PKCS1_PSS_PADDING
      const signature = sign(digest, signedBytes(ATTRIBUTES), { key, padding, saltLength })
      return signedData(CONTENT, signerInfoOf(sender, { attributes: ATTRIBUTES, algorithm, signature }))
    }
    for (const saltLength of [32, constants.RSA_PSS_SALTLEN_MAX_SIGN]) {
      t.match(await read(signedWith(sender.privateKey, 'sha256', saltLength)), { signed: true })
    }
    const refusal = { name: 'Refusal', modifier: 'authentication-failed', reason: /not of any certificate/ }
    await t.rejects(read(signedWith(sender.privateKey, 'sha1', 20)), refusal, 'another digest')
    const { privateKey } = makeCertificate({ commonName: 'Somebody else' })
    await t.rejects(read(signedWith(privateKey, 'sha256', 32)), refusal, 'another key')
  },
)

t.test('A short RSA key signs with as long a salt as there is room for', async (t) => {
  const short = makeCertificate({ commonName: 'Short', keyBits: 1024 })
  const odd = makeCertificate({ commonName: 'Odd', keyBits: 1031 })
  for (const [key, algorithm, saltLength] of [
    [short, 'SHA512', 62],
    [short, 'SHA384', 48],
    [odd, 'SHA512', 63],
    [sender, 'SHA512', 64],
  ] as const) {
    const signing = { algorithm, scheme: 'PSS', ...key } as const
    const content = digest(algorithm, CONTENT)
    const der = await formatDetachedSignature(content, signing, new Date())
    const { signatureAlgorithm, signedAttributes, signature } = readSignedData(readContentInfo(der).content)
    t.same(signatureAlgorithm, {
      scheme: 'PSS',
      digest: algorithm,
      pss: { maskDigest: algorithm, saltLength },
    })
    const padding = constants.RSA_PKCS1_PSS_PADDING
    const options = { key: key.publicKey, padding, saltLength }
    t.ok(verify(algorithm.toLowerCase(), signedAttributes, options, signature), `${algorithm}, ${saltLength}`)
  }
})

t.test('What cannot be signed is refused in words', async (t) => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 512 })
  for (const scheme of ['PKCS1', 'PSS'] as const) {
    const signing = { algorithm: 'SHA512', scheme, certificate: sender.certificate, privateKey } as const
    const message = 'nothing can be signed with the key and SHA512'
    const made = formatDetachedSignature(digest('SHA512', CONTENT), signing, new Date())
    await t.rejects(made, { name: 'ComposeError', message }, scheme)
  }
})

function read(body: Buffer) {
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

/** RSASSA-PSS-params (RFC 8017 A.2.3). */
function pss(digest: string, mask: string, saltLength: number, trailer: number): Part {
  const maskAlgorithm = algorithmIdentifier(OID.mgf1, algorithmIdentifier(mask))
  const parameters = sequence(
    tagged(0, algorithmIdentifier(digest)),
    tagged(1, maskAlgorithm),
    tagged(2, integer(saltLength)),
    tagged(3, integer(trailer)),
  )
  return algorithmIdentifier(OID.pss, parameters)
}
