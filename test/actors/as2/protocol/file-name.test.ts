import t from 'tap'
import { formatCompressedData } from '../../../../actors/as2/protocol/cms/compressed-data.ts'
import { formatEnvelopedData } from '../../../../actors/as2/protocol/cms/enveloped-data.ts'
import { formatMultipartSigned } from '../../../../actors/as2/protocol/multipart-signed.ts'
import type { HeaderList } from '../../../../runtime/mime/headers.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { opaqueSigned } from './opaque-signed.ts'
import { assertSame } from './stream/both-readers.ts'

/** What a received file is called, in memory and as a stream. */

const sender = makeCertificate({ commonName: 'Sender' })
const receiver = makeCertificate({ commonName: 'Receiver' })

interface Wrapped {
  readonly headers: HeaderList
  readonly body: Buffer
}

function smime(body: Buffer): Wrapped {
  return { headers: [['Content-Type', 'application/pkcs7-mime; name="smime.p7m"']], body }
}

const LAYERS: Readonly<Record<string, (entity: Buffer) => Wrapped | Promise<Wrapped>>> = {
  signed: async (entity) =>
    formatMultipartSigned(entity, {
      signing: { algorithm: 'SHA256', scheme: 'PKCS1', ...sender },
      signingTime: new Date('2026-11-21T08:00:00Z'),
    }),
  'signed opaquely': (entity) => opaqueSigned(entity, sender),
  compressed: async (entity) => smime(await formatCompressedData(entity)),
  encrypted: (entity) => {
    const to = { algorithm: 'AES128-CBC', keyTransport: 'PKCS1', certificate: receiver.certificate } as const
    return smime(formatEnvelopedData(entity, to).bytes)
  },
}

/** The name that is found where an entity is within a layer, and the HTTP headers name a file. */
async function nameIn({ headers, body }: Wrapped, outer: string): Promise<unknown> {
  const message = {
    headers: [
      ['AS2-From', 'a'],
      ['AS2-To', 'b'],
      ...headers,
      ['Content-Disposition', `attachment; filename="${outer}"`],
    ] satisfies HeaderList,
    body,
    decryption: [receiver],
    signers: [sender.certificate],
    maxContentBytes: 10_000,
  }
  const outcome = await assertSame(message, [50])
  if (outcome.content === null) throw new Error(`It is refused: ${String(outcome['reason'])}`)
  return outcome['fileName']
}

const BARE = Buffer.from("UNA:+.? 'UNB+UNOA:1'\r\n")
const TYPED = Buffer.from(`Content-Type: application/edifact\r\n\r\n${BARE.toString()}`)
const NAMED = Buffer.from(`Content-Disposition: attachment; filename=in.edi\r\n\r\n${BARE.toString()}`)
const NAMED_BY_TYPE = Buffer.from(`Content-Type: text/plain; name=in.txt\r\n\r\n${BARE.toString()}`)

for (const [layer, wrap] of Object.entries(LAYERS)) {
  void t.test(`content that is ${layer} has its own name, else that of the HTTP header`, async (t) => {
    t.equal(await nameIn(await wrap(TYPED), 'real.edi'), 'real.edi')
    t.equal(await nameIn(await wrap(NAMED), 'real.edi'), 'in.edi')
    t.equal(await nameIn(await wrap(NAMED_BY_TYPE), 'real.edi'), 'in.txt')
    t.equal(await nameIn(await wrap(TYPED), 'smime.p7m'), null, 'an S/MIME object is not the file')
    t.equal(await nameIn(await wrap(TYPED), 'orders.p7m'), null)
  })
}

void t.test(
  'content without any headers inside of an encryption has the name of the HTTP header',
  async (t) => {
    const wrapped = await LAYERS['encrypted']?.(BARE)
    if (wrapped === undefined) throw new Error('There is no such layer')
    t.equal(await nameIn(wrapped, 'real.edi'), 'real.edi')
  },
)

void t.test('several files have names of their own, and the HTTP header names none of them', async (t) => {
  const unnamed = [
    'Content-Type: multipart/related; boundary=x',
    '',
    '--x',
    '',
    'a',
    '--x',
    '',
    'b',
    '--x--',
    '',
  ]
  const wrapped = await LAYERS['signed']?.(Buffer.from(unnamed.join('\r\n')))
  if (wrapped === undefined) throw new Error('There is no such layer')
  t.equal(await nameIn(wrapped, 'real.edi'), null)
})

void t.test('without any layer a file may be called like an S/MIME object', async (t) => {
  t.equal(
    await nameIn({ headers: [['Content-Type', 'application/edifact']], body: BARE }, 'real.p7m'),
    'real.p7m',
  )
})
