import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { CIPHERS, KEY_TRANSPORTS, type CipherName } from '../../../../../actors/as2/protocol/algorithms.ts'
import type { Outgoing } from '../../../../../actors/as2/protocol/compose.ts'
import { makeCertificate } from '../../../../support/certificates.ts'

/** Messages of every combination, for tests of streams. */

export const sender = makeCertificate({ commonName: 'Sender' })
export const receiver = makeCertificate({ commonName: 'Receiver' })
export const ecSender = makeCertificate({ commonName: 'Sender', keyType: 'ec' })
export const ecReceiver = makeCertificate({ commonName: 'Receiver', keyType: 'ec', curve: 'P-384' })
export const PIECE = 65_536
export const MULTIPART = 'multipart/mixed; boundary="x"'

const KINDS = ['None', 'BeforeSigning', 'AfterSigning'] as const
export const outgoing: fc.Arbitrary<Omit<Outgoing, 'content'>> = fc.record({
  as2From: fc.constant('Sender'),
  as2To: fc.constant('Receiver'),
  messageId: fc.constant('<1@sender>'),
  subject: fc.constant(null),
  date: fc.constant(new Date('2026-11-21T08:00:00Z')),
  fileName: fc.constantFrom(null, 'Übersicht.edi'),
  contentType: fc.constantFrom('application/edifact', MULTIPART),
  compression: fc.constantFrom(...KINDS),
  signature: fc.option(
    fc
      .record({
        algorithm: fc.constantFrom('SHA1', 'SHA256', 'SHA384', 'SHA512'),
        scheme: fc.constantFrom('PKCS1', 'PSS'),
        keys: fc.constantFrom(sender, ecSender),
      })
      .map(({ algorithm, scheme, keys: { certificate, privateKey } }) => {
        return { algorithm, scheme, certificate, privateKey }
      }),
  ),
  encryption: fc.option(
    fc.record({
      algorithm: fc.constantFrom(...(Object.keys(CIPHERS) as CipherName[])),
      keyTransport: fc.constantFrom(...(Object.keys(KEY_TRANSPORTS) as (keyof typeof KEY_TRANSPORTS)[])),
      certificate: fc.constantFrom(receiver.certificate, ecReceiver.certificate),
    }),
  ),
  receipt: fc.constantFrom(null, { signed: true, asyncUrl: null }),
  product: fc.constant('Waybill/0.1.0'),
  transferEncoding: fc.constantFrom('binary', 'base64'),
})

/** Some that compress and some that do not, of any size up to the one given. */
export const content = (maxBytes: number): fc.Arbitrary<Buffer> =>
  fc
    .tuple(fc.nat(maxBytes), fc.nat(255), fc.boolean())
    .map(([bytes, seed, random]) => (random ? randomLike(bytes, seed) : Buffer.alloc(bytes, `BY+${seed}'`)))

export function multipartOf(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from('--x\r\n\r\n'), bytes, Buffer.from('\r\n--x--\r\n')])
}

/** Equal for equal arguments. */
export function randomLike(bytes: number, seed: number): Buffer {
  return createHash('shake256', { outputLength: Math.max(1, bytes) })
    .update(String(seed))
    .digest()
    .subarray(0, bytes)
}

/** Chunks that nobody else holds. */
export async function* chunksOf(bytes: Buffer, cuts: readonly number[]): AsyncGenerator<Buffer> {
  const sorted = cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b)
  for (const [index, cut] of [...sorted, bytes.length].entries()) {
    yield Buffer.from(bytes.subarray(index === 0 ? 0 : sorted[index - 1], cut))
  }
}

export async function bytesOf(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of body) {
    chunks.push(Buffer.from(chunk))
    // What is handed over is the reader's: nothing of it is read again.
    chunk.fill(0)
  }
  return Buffer.concat(chunks)
}

/** Where chunks end. */
export const cuts = fc.array(fc.nat(1_000_000), { maxLength: 6 })
