import { createHash } from 'node:crypto'
import t from 'tap'
import { algorithmIdentifier, NULL } from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { readMessage } from '../../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../../actors/as2/protocol/incoming.ts'
import { makeCertificate } from '../../../../support/certificates.ts'
import { attributesOf, OID, signedBytes, signedData, signerInfo, signerInfoOf } from '../crafted-cms.ts'

/** Bleichenbacher's forgery of 2006: with the public exponent 3, a cube root passes where a reader is careless. */

const CONTENT = Buffer.from('Content-Type: text/plain\r\n\r\nhello')
const ATTRIBUTES = attributesOf(CONTENT)
const RSA = algorithmIdentifier(OID.rsa, NULL)
const DIGEST_INFO = Buffer.from('3031300d060960864801650304020105000420', 'hex')
const UNAUTHENTIC = { name: 'Refusal', modifier: 'authentication-failed' }
const cubic = makeCertificate({ commonName: 'Cubic', publicExponent: 3 })

function read(body: Buffer): Promise<Incoming> {
  return readMessage({
    headers: [
      ['AS2-From', 'sender'],
      ['AS2-To', 'receiver'],
      ['Content-Type', 'application/pkcs7-mime'],
    ],
    body,
    decryption: [],
    signers: [cubic.certificate],
    maxContentBytes: 1_000_000,
  })
}

t.test(
  'A signature of a key with the exponent 3 counts, and a cube root with garbage does not',
  async (t) => {
    t.ok((await read(signedData(CONTENT, signerInfo(cubic, ATTRIBUTES)))).signed)
    const hash = createHash('sha256').update(signedBytes(ATTRIBUTES)).digest()
    const padding = (length: number): Buffer =>
      Buffer.concat([Buffer.from([0, 1]), Buffer.alloc(length, 0xff), Buffer.from([0])])
    const forgeries = {
      'garbage behind the digest': withCubeRoot(Buffer.concat([padding(8), DIGEST_INFO, hash])),
      'no padding at all': withCubeRoot(Buffer.concat([padding(0), DIGEST_INFO, hash])),
      'garbage in the parameters of the digest': withCubeRoot(
        Buffer.concat([padding(8), Buffer.from('3081ff3081dd0609608648016503040201', 'hex')]),
      ),
    }
    for (const [name, signature] of Object.entries(forgeries)) {
      const forged = signerInfoOf(cubic, { attributes: ATTRIBUTES, algorithm: RSA, signature })
      await t.rejects(read(signedData(CONTENT, forged)), UNAUTHENTIC, name)
    }
  },
)

/** A number of 2048 bits whose cube begins with the octets. */
function withCubeRoot(octets: Buffer): Buffer {
  const target = BigInt(`0x${Buffer.concat([octets, Buffer.alloc(256 - octets.length)]).toString('hex')}`)
  let low = 0n
  let high = 1n << 684n
  while (low < high) {
    const middle = (low + high) / 2n
    if (middle ** 3n < target) low = middle + 1n
    else high = middle
  }
  const cube = (low ** 3n).toString(16).padStart(512, '0')
  if (!cube.startsWith(octets.toString('hex'))) throw new Error('no cube begins so')
  return Buffer.from(low.toString(16).padStart(512, '0'), 'hex')
}
