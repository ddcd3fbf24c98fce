import t from 'tap'
import type { HeaderList } from '../../../../runtime/mime/headers.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../actors/as2/protocol/incoming.ts'
import { Refusal } from '../../../../actors/as2/protocol/refusal.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { attributesOf, compressedData, signedData, signerInfo } from './crafted-cms.ts'

/** A good signature of the partner, with content that it is not over brought in beside, around or inside. */

const sender = makeCertificate({ commonName: 'Sender' })
const SIGNED = Buffer.from('Content-Type: text/plain\r\n\r\ngenuine')
const EVIL = Buffer.from('Content-Type: text/plain\r\n\r\nevil')

function read(headers: HeaderList, body: Buffer): Promise<Incoming> {
  return readMessage({
    headers: [['AS2-From', 'sender'], ['AS2-To', 'receiver'], ...headers],
    body,
    decryption: [],
    signers: [sender.certificate],
    maxContentBytes: 1_000_000,
    require: { signed: true, encrypted: false },
  })
}

const multipart = (boundary: string): HeaderList => [
  [
    'Content-Type',
    `multipart/signed; protocol="application/pkcs7-signature"; micalg=sha-256; boundary="${boundary}"`,
  ],
]

/** A multipart body of parts as they are. */
function bodyOf(boundary: string, ...parts: readonly Buffer[]): Buffer {
  const delimited = parts.flatMap((part) => [Buffer.from(`--${boundary}\r\n`), part, Buffer.from('\r\n')])
  return Buffer.concat([...delimited, Buffer.from(`--${boundary}--\r\n`)])
}

function signatureOver(content: Buffer): Buffer {
  const der = signedData(null, signerInfo(sender, attributesOf(content)))
  const head = 'Content-Type: application/pkcs7-signature\r\nContent-Transfer-Encoding: base64\r\n\r\n'
  return Buffer.from(`${head}${der.toString('base64')}`)
}

function entity(headers: HeaderList, body: Buffer): Buffer {
  const block = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return Buffer.concat([Buffer.from(`${block}\r\n`), body])
}

const SIGNATURE = signatureOver(SIGNED)
const INNER = entity(multipart('in'), bodyOf('in', SIGNED, SIGNATURE))
const CMS_TYPE: HeaderList = [['Content-Type', 'application/pkcs7-mime']]

t.test('The signed part arrives when nothing is done to it', async (t) => {
  const incoming = await read(multipart('b'), bodyOf('b', SIGNED, SIGNATURE))
  t.equal(incoming.content.toString(), 'genuine')
})

t.test('Nothing but the signed part ever counts', async (t) => {
  const rows: Record<string, readonly [HeaderList, Buffer]> = {
    'the signed part swapped': [multipart('b'), bodyOf('b', EVIL, SIGNATURE)],
    'the parts in the other order': [multipart('b'), bodyOf('b', SIGNATURE, SIGNED)],
    'another part before': [multipart('b'), bodyOf('b', EVIL, SIGNED, SIGNATURE)],
    'another part behind': [multipart('b'), bodyOf('b', SIGNED, SIGNATURE, EVIL)],
    'a second signature over another part': [
      multipart('b'),
      bodyOf('b', EVIL, SIGNATURE, signatureOver(EVIL.subarray(1))),
    ],
    'a signed multipart in an unsigned one': [
      [['Content-Type', 'multipart/mixed; boundary="m"']],
      bodyOf('m', EVIL, INNER),
    ],
    'a signed multipart in place of the signature': [multipart('b'), bodyOf('b', EVIL, INNER)],
    'a signed multipart around the signature of its inside': [multipart('b'), bodyOf('b', INNER, SIGNATURE)],
    'a multipart that is signed twice': [multipart('b'), bodyOf('b', INNER, signatureOver(INNER))],
    'a boundary that another begins with': [
      multipart('b'),
      Buffer.concat([Buffer.from('--b\r\n'), EVIL, Buffer.from('\r\n'), bodyOf('bb', SIGNED, SIGNATURE)]),
    ],
    'the headers of the part replaced': [
      multipart('b'),
      bodyOf('b', Buffer.from(SIGNED.toString().replace('text/plain', 'text/x-evil')), SIGNATURE),
    ],
    'an opaque signature over one content with another inside': [
      CMS_TYPE,
      signedData(EVIL, signerInfo(sender, attributesOf(SIGNED))),
    ],
    'a signature inside of compression inside of compression': [
      CMS_TYPE,
      compressedData(entity(CMS_TYPE, compressedData(INNER))),
    ],
  }
  for (const [name, [headers, body]] of Object.entries(rows)) {
    const outcome = await read(headers, body).catch((thrown: unknown) => thrown)
    t.ok(outcome instanceof Refusal, name)
  }
})

t.test('What stands around the parts never becomes content', async (t) => {
  const around = Buffer.concat([EVIL, Buffer.from('\r\n'), bodyOf('b', SIGNED, SIGNATURE), EVIL])
  t.equal((await read(multipart('b'), around)).content.toString(), 'genuine', 'preamble and epilogue')
  const closed = Buffer.concat([bodyOf('b', SIGNED, SIGNATURE), bodyOf('b', EVIL, signatureOver(EVIL))])
  t.equal((await read(multipart('b'), closed)).content.toString(), 'genuine', 'what comes after the end')
})

t.test('Layers that are nested on and on end at once', async (t) => {
  let nested = INNER
  for (let depth = 0; depth < 40; depth++)
    nested = entity(multipart(`b${depth}`), bodyOf(`b${depth}`, nested, SIGNATURE))
  const [head = ''] = nested.toString('latin1').split('\r\n')
  const body = nested.subarray(nested.indexOf('\r\n\r\n') + 4)
  const signed = read([['Content-Type', head.replace('Content-Type: ', '')]], body)
  await t.rejects(signed, { name: 'Refusal', modifier: 'integrity-check-failed' })
})
