import t from 'tap'
import { micOf } from '../../../../actors/as2/protocol/mic.ts'
import type { DigestName } from '../../../../actors/as2/protocol/algorithms.ts'
import { assertSame } from './stream/both-readers.ts'

/** Which digest the MIC of an unsigned message has, in memory and as a stream (RFC 4130 §7.3.1). */

const CONTENT = Buffer.from("UNA:+.? '")

const ASKED: readonly (readonly [request: string | null, digest: DigestName])[] = [
  ['optional, sha-256, sha1', 'SHA256'],
  ['optional, sha1, sha-256', 'SHA1'],
  ['required, whirlpool, sha-512', 'SHA512'],
  ['optional, md5, sha-256', 'SHA256'],
  ['optional, md5, sha1', 'SHA1'],
  ['optional, rsa-md5,sha1', 'SHA1'],
  ['optional, md5, whirlpool, sha-384', 'SHA384'],
  ['optional, md5', 'MD5'],
  ['required, rsa-md5, whirlpool', 'MD5'],
  ['optional, whirlpool', 'SHA1'],
  [null, 'SHA1'],
]

for (const [request, digest] of ASKED) {
  void t.test(`a sender that asks for ${request ?? 'no digest'} gets a MIC in ${digest}`, async (t) => {
    const micalg = request === null ? '' : `; signed-receipt-micalg=${request}`
    const outcome = await assertSame(
      {
        headers: [
          ['AS2-From', 'a'],
          ['AS2-To', 'b'],
          ['Disposition-Notification-To', 'a'],
          ['Disposition-Notification-Options', `signed-receipt-protocol=optional, pkcs7-signature${micalg}`],
          ['Content-Type', 'application/edifact'],
        ],
        body: CONTENT,
        decryption: [],
        signers: [],
        maxContentBytes: 1_000,
      },
      [4],
    )
    t.same(outcome['mic'], micOf(digest, CONTENT))
  })
}
