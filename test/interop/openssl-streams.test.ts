import { randomBytes } from 'node:crypto'
import t from 'tap'
import type { CipherName } from '../../actors/as2/protocol/algorithms.ts'
import type { OutgoingFacts } from '../../actors/as2/protocol/outgoing.ts'
import { composeStream } from '../../actors/as2/protocol/stream/compose-stream.ts'
import { makeCertificate } from '../support/certificates.ts'
import { bodyOf, Openssl, PLAIN } from './openssl.ts'

/** What we write beyond the size that is held in memory, BER of indefinite lengths in pieces, for `openssl cms`. */

t.setTimeout(180_000)

const CERTIFICATES = {
  rsa: makeCertificate({ commonName: 'RSA' }),
  p256: makeCertificate({ commonName: 'P-256', keyType: 'ec' }),
} as const

const openssl = await Openssl.start(t, CERTIFICATES)
const content = randomBytes(3_000_001)

async function streamed(changes: Partial<OutgoingFacts>): Promise<Buffer> {
  async function* chunks(): AsyncGenerator<Buffer> {
    for (let at = 0; at < content.length; at += 100_000) yield content.subarray(at, at + 100_000)
  }
  const made: Buffer[] = []
  for await (const chunk of composeStream({ ...PLAIN, ...changes, content: chunks() }).body) made.push(chunk)
  return Buffer.concat(made)
}

t.test('openssl decrypts it', async (t) => {
  for (const algorithm of ['3DES', 'AES256-CBC', 'AES128-GCM', 'AES256-GCM'] satisfies CipherName[]) {
    for (const name of ['rsa', 'p256'] as const) {
      const { certificate } = CERTIFICATES[name]
      const body = await streamed({ encryption: { algorithm, keyTransport: 'OAEP', certificate } })
      t.equal(body[1], 0x80, 'of indefinite length')
      t.ok(bodyOf(await openssl.decrypt(body, name)).equals(content), `${algorithm} to ${name}`)
    }
  }
})

t.test('openssl refuses it when a byte of it is another one', async (t) => {
  const { certificate } = CERTIFICATES.rsa
  const encryption = { algorithm: 'AES256-GCM', keyTransport: 'PKCS1', certificate } as const
  const body = await streamed({ encryption })
  body[1_500_000] = (body[1_500_000] ?? 0) ^ 1
  await t.rejects(openssl.decrypt(body, 'rsa'))
})
