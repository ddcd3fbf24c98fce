import fc from 'fast-check'
import t from 'tap'
import { composeMessage, type Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import type { ReceivedMessage } from '../../../../actors/as2/protocol/incoming.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { assertSame } from './stream/both-readers.ts'

const globex = makeCertificate({ commonName: 'globex edi' })
const acme = makeCertificate({ commonName: 'acme edi' })

const SECURE: Omit<Outgoing, 'content' | 'contentType'> = {
  as2From: 'GLOBEX',
  as2To: 'ACME',
  messageId: '<1@globex>',
  subject: null,
  date: new Date(0),
  fileName: null,
  compression: 'BeforeSigning',
  signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...globex },
  encryption: { algorithm: 'AES128-GCM', keyTransport: 'PKCS1', certificate: acme.certificate },
  receipt: { signed: true, asyncUrl: null },
  product: 'Partner/1.0',
}
const PLAIN = { compression: 'None', signature: null, encryption: null } as const

async function received(contentType: string, content: Buffer, secure: boolean): Promise<ReceivedMessage> {
  const { headers, body } = await composeMessage({
    ...SECURE,
    ...(secure ? {} : PLAIN),
    contentType,
    content,
  })
  return { headers, body, decryption: [acme], signers: [globex.certificate], maxContentBytes: 100_000 }
}

const LINES = [
  '--x',
  '--x--',
  '--x  ',
  '--xy',
  '',
  'text',
  'Content-Type: text/plain; name="a=?.txt"',
  'Content-Disposition: attachment; filename="b.bin"',
  'Content-Transfer-Encoding: base64',
  'Content-Transfer-Encoding: quoted-printable',
  'Content-Transfer-Encoding: x-unknown',
  'Content-ID: <root>',
  'QUJD=',
  '=41=',
]

t.test(
  'whatever stands in a multipart, both readers list the same files, or refuse it for the same reason',
  async (t) => {
    const lines = fc.array(fc.constantFrom(...LINES), { maxLength: 25 })
    const types = fc.constantFrom(
      'multipart/related; boundary=x',
      'multipart/mixed; boundary="x"; start="<root>"',
      'multipart/related',
      'multipart/alternative; boundary=x',
    )
    const chunking = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 4 })
    let listed = 0
    let refused = 0
    await fc.assert(
      fc.asyncProperty(
        lines,
        fc.constantFrom('\r\n', '\n'),
        types,
        chunking,
        fc.boolean(),
        async (body, lineBreak, type, sizes, secure) => {
          const content = Buffer.from(
            ['--x', ...body, ...(body.length % 2 === 0 ? ['--x--'] : [])].join(lineBreak),
          )
          const outcome = await assertSame(await received(type, content, secure), sizes)
          if (outcome.content === null) refused += 1
          else if (outcome['attachments'] !== null) listed += 1
        },
      ),
      { numRuns: 300 },
    )
    t.ok(listed > 20 && refused > 20, `${listed} were listed and ${refused} refused`)
  },
)

t.test(
  'inside of an encryption without a signature, a malformed multipart tells the partner nothing',
  async (t) => {
    const { headers, body } = await composeMessage({
      ...SECURE,
      signature: null,
      contentType: 'multipart/related; boundary=x',
      content: Buffer.from('--x\r\n\r\ncut off'),
    })
    const message = { headers, body, decryption: [acme], signers: [], maxContentBytes: 100_000 }
    t.match(await assertSame(message, [7]), {
      content: null,
      modifier: 'decryption-failed',
      reason: /no closing delimiter/,
      mic: null,
    })
  },
)
