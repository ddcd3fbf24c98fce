import {
  constants,
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  privateEncrypt,
  sign,
} from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import t from 'tap'
import { DIGESTS } from '../../../../../actors/as2/protocol/algorithms.ts'
import type { SigningDigest } from '../../../../../actors/as2/protocol/algorithms.ts'
import { BerReader } from '../../../../../actors/as2/protocol/asn1/reader.ts'
import {
  algorithmIdentifier,
  integer,
  sequence,
  tagged,
} from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { isPssSignedBy } from '../../../../../actors/as2/protocol/cms/pss.ts'
import { readMessage } from '../../../../../actors/as2/protocol/read.ts'
import { makeCertificate } from '../../../../support/certificates.ts'
import { attributesOf, OID, signedBytes, signedData, signerInfoOf } from '../crafted-cms.ts'

/** PSS whose mask has another digest than the signature: `sha256` with the SHA-1 that the mask has by default. */

t.setTimeout(120_000)

const BYTES = Buffer.from('what is signed')

/** A key that node:crypto signs with in this way, and the same numbers as a key for anything. */
function makeKeys(modulusLength: number, digest: SigningDigest, maskDigest: SigningDigest) {
  const hashAlgorithm = DIGESTS[digest].node
  const mgf1HashAlgorithm = DIGESTS[maskDigest].node
  // The types of Node say that it is a string.
  const anySalt: object = { saltLength: 0 }
  const wishes = { modulusLength, hashAlgorithm, mgf1HashAlgorithm, ...anySalt }
  const made = generateKeyPairSync('rsa-pss', wishes)
  const [, , numbers] = new BerReader(made.privateKey.export({ type: 'pkcs8', format: 'der' }))
    .next()
    .children()
  if (numbers === undefined) throw new Error('PKCS#8 without a key')
  const privateKey = createPrivateKey({ key: numbers.octets(), format: 'der', type: 'pkcs1' })
  return { pssKey: made, privateKey, publicKey: createPublicKey(privateKey) }
}

t.test('A signature is of its key alone, whatever the digests, the salt and the length of the key', (t) => {
  for (const [modulusLength, digest, maskDigest] of [
    [2048, 'SHA256', 'SHA1'],
    [2048, 'SHA1', 'SHA512'],
    [1025, 'SHA384', 'SHA1'],
    [1031, 'SHA512', 'SHA256'],
    [1033, 'SHA256', 'SHA384'],
  ] as const) {
    const { pssKey, publicKey } = makeKeys(modulusLength, digest, maskDigest)
    const longest = Math.ceil((modulusLength - 1) / 8) - DIGESTS[digest].bytes - 2
    for (const saltLength of [0, 20, Math.min(longest, DIGESTS[digest].bytes), longest]) {
      const padding = constants.RSA_PKCS1_PSS_PADDING
      const signature = sign(DIGESTS[digest].node, BYTES, { key: pssKey.privateKey, padding, saltLength })
      const signed = { digest, maskDigest, saltLength, bytes: BYTES, signature }
      const row = `${modulusLength} bits, ${digest}, ${maskDigest} in the mask, salt of ${saltLength}`
      t.ok(isPssSignedBy(publicKey, signed), row)
      t.ok(isPssSignedBy(pssKey.publicKey, signed), `${row}, by a key for PSS alone`)
      t.notOk(isPssSignedBy(publicKey, { ...signed, bytes: Buffer.from('another') }), `${row}, other bytes`)
      t.notOk(isPssSignedBy(publicKey, { ...signed, saltLength: saltLength + 1 }), `${row}, a longer salt`)
      t.notOk(isPssSignedBy(publicKey, { ...signed, saltLength: saltLength - 1 }), `${row}, a shorter salt`)
      t.notOk(isPssSignedBy(publicKey, { ...signed, maskDigest: digest }), `${row}, another mask`)
      t.notOk(isPssSignedBy(publicKey, { ...signed, saltLength: 100_000 }), `${row}, a salt without room`)
      t.notOk(isPssSignedBy(publicKey, { ...signed, signature: signature.subarray(1) }), `${row}, cut off`)
    }
  }
  t.end()
})

t.test('A key for PSS alone signs in the one way that it names', (t) => {
  const { pssKey, privateKey } = makeKeys(2048, 'SHA256', 'SHA256')
  const signature = signEncoded(privateKey, encode({ encodedBits: 2047 }))
  const signed = { digest: 'SHA256', maskDigest: 'SHA1', saltLength: 20, bytes: BYTES, signature } as const
  t.ok(isPssSignedBy(createPublicKey(privateKey), signed), 'the numbers are right')
  t.notOk(isPssSignedBy(pssKey.publicKey, signed), 'the key is not for it')
  t.end()
})

/** SHA-256 with SHA-1 in its mask and a salt of 20 bytes (RFC 8017 §9.1.1), or what somebody makes of it. */
interface Encoding {
  readonly encodedBits: number
  /** In the block before it is masked. */
  readonly alterBlock?: (block: Buffer) => void
  /** In the whole. */
  readonly alter?: (encoded: Buffer) => void
  readonly digest?: SigningDigest
  readonly prefixBytes?: number
}

/** Begins with zeros, so that there is room below the modulus for bits that should not be there. */
function encode(encoding: Encoding): Buffer {
  for (let attempt = 0; ; attempt++) {
    const salt = createHash('sha1').update(`salt ${attempt}`).digest()
    const [first = 0] = encodeWith(salt, { encodedBits: encoding.encodedBits })
    if (first < 4) return encodeWith(salt, encoding)
  }
}

function encodeWith(
  salt: Buffer,
  { encodedBits, alterBlock, alter, digest = 'SHA256', prefixBytes = 8 }: Encoding,
): Buffer {
  const digestOf = (bytes: Buffer): Buffer => createHash(DIGESTS[digest].node).update(bytes).digest()
  const hash = digestOf(Buffer.concat([Buffer.alloc(prefixBytes), digestOf(BYTES), salt]))
  const encodedBytes = Math.ceil(encodedBits / 8)
  const block = Buffer.alloc(encodedBytes - hash.length - 1)
  block[block.length - salt.length - 1] = 1
  salt.copy(block, block.length - salt.length)
  alterBlock?.(block)
  for (let at = 0, counter = 0; at < block.length; counter++) {
    const mask = createHash('sha1')
      .update(hash)
      .update(Buffer.from([0, 0, 0, counter]))
      .digest()
    for (const octet of mask) if (at < block.length) block[at] = (block[at++] ?? 0) ^ octet
  }
  block[0] = (block[0] ?? 0) & (0xff >> (8 * encodedBytes - encodedBits))
  const encoded = Buffer.concat([block, hash, Buffer.from([0xbc])])
  alter?.(encoded)
  return encoded
}

function signEncoded(key: KeyObject, encoded: Buffer): Buffer {
  return privateEncrypt({ key, padding: constants.RSA_NO_PADDING }, encoded)
}

t.test('An encoding that differs in anything is none', (t) => {
  const { privateKey, publicKey } = makeKeys(2048, 'SHA256', 'SHA1')
  const isTaken = (encoding: Omit<Encoding, 'encodedBits'>): boolean => {
    const signature = signEncoded(privateKey, encode({ encodedBits: 2047, ...encoding }))
    const signed = { digest: 'SHA256', maskDigest: 'SHA1', saltLength: 20, bytes: BYTES, signature } as const
    return isPssSignedBy(publicKey, signed)
  }
  const flip = (at: number) => (octets: Buffer) => void (octets[at] = (octets.at(at) ?? 0) ^ 1)
  const one = 256 - 32 - 1 - 20 - 1
  t.ok(isTaken({}))
  const rows: Record<string, Omit<Encoding, 'encodedBits'>> = {
    'another trailer': { alter: (encoded) => void (encoded[255] = 0xcc) },
    'another hash': { alter: flip(250) },
    'a bit above the encoding': { alter: (encoded) => void (encoded[0] = (encoded[0] ?? 0) | 0x80) },
    'padding that begins with a one': { alterBlock: flip(0) },
    'padding with a one in it': { alterBlock: flip(100) },
    'padding that ends early': { alterBlock: (block) => void (block[one - 1] = 1) },
    'no one behind the padding': { alterBlock: flip(one) },
    'two behind the padding': { alterBlock: (block) => void (block[one] = 2) },
    'another salt': { alterBlock: flip(one + 1) },
    'another digest': { digest: 'SHA1' },
    'no zeros before the digest': { prefixBytes: 0 },
  }
  for (const [name, row] of Object.entries(rows)) t.notOk(isTaken(row), name)
  t.end()
})

t.test('What fills whole octets has a zero octet before it', (t) => {
  let keys = makeKeys(1025, 'SHA256', 'SHA1')
  // A modulus that has room for a one where the zero should be.
  const second = (): number =>
    Buffer.from(keys.publicKey.export({ format: 'jwk' }).n ?? '', 'base64url').at(1) ?? 0
  while (second() < 0x10) keys = makeKeys(1025, 'SHA256', 'SHA1')
  for (const [first, isTaken] of [
    [0, true],
    [1, false],
  ] as const) {
    const encoded = Buffer.concat([Buffer.from([first]), encode({ encodedBits: 1024 })])
    const signature = signEncoded(keys.privateKey, encoded)
    const signed = { digest: 'SHA256', maskDigest: 'SHA1', saltLength: 20, bytes: BYTES, signature } as const
    t.equal(isPssSignedBy(keys.publicKey, signed), isTaken, `it begins with ${first}`)
  }
  t.end()
})

t.test('A message is taken with it, and refused by another key or over other attributes', async (t) => {
  const content = Buffer.from('Content-Type: text/plain\r\n\r\nhello')
  const attributes = attributesOf(content)
  const keys = makeKeys(2048, 'SHA256', 'SHA1')
  const sender = makeCertificate({ commonName: 'Sender', key: keys })
  const parameters = sequence(
    tagged(0, algorithmIdentifier(OID.sha256)),
    tagged(1, algorithmIdentifier(OID.mgf1, algorithmIdentifier(OID.sha1))),
    tagged(2, integer(32)),
  )
  const algorithm = algorithmIdentifier(OID.pss, parameters)
  const padding = constants.RSA_PKCS1_PSS_PADDING
  const key = { key: keys.pssKey.privateKey, padding, saltLength: 32 }
  const read = (bytes: Buffer, signer: Buffer) =>
    readMessage({
      headers: [
        ['AS2-From', 'sender'],
        ['AS2-To', 'receiver'],
        ['Content-Type', 'application/pkcs7-mime'],
      ],
      body: signedData(
        content,
        signerInfoOf(sender, { attributes, algorithm, signature: sign('sha256', bytes, key) }),
      ),
      decryption: [],
      signers: [signer],
      maxContentBytes: 1_000_000,
    })
  const incoming = await read(signedBytes(attributes), sender.certificate)
  const signer = { certificate: sender.certificate }
  t.match(incoming, { signed: true, signer, algorithms: { signatureScheme: 'PSS' } })
  const refusal = { name: 'Refusal', modifier: 'authentication-failed', reason: /not of any certificate/ }
  await t.rejects(read(Buffer.from('others'), sender.certificate), refusal)
  const { certificate } = makeCertificate({ commonName: 'Somebody else' })
  await t.rejects(read(signedBytes(attributes), certificate), refusal)
})
