/** The valid messages and receipts that are mutated: every layer, in DER and in BER, and what other products write. */
import type { CipherName } from '../../actors/as2/protocol/algorithms.ts'
import { composeMessage, type Outgoing } from '../../actors/as2/protocol/compose.ts'
import { PROCESSED, type Disposition } from '../../actors/as2/protocol/disposition.ts'
import type { HeaderList } from '../../runtime/mime/headers.ts'
import { MAKING } from '../../actors/as2/protocol/making.ts'
import { composeReceipt } from '../../actors/as2/protocol/receipt.ts'
import { attributesOf, compressedData, signedData, signerInfo } from '../actors/as2/protocol/crafted-cms.ts'
import { makeCertificate } from '../support/certificates.ts'

export interface Seed {
  readonly headers: HeaderList
  readonly body: Buffer
}

export const sender = makeCertificate({ commonName: 'Sender' })
export const receiver = makeCertificate({ commonName: 'Receiver' })
export const ecReceiver = makeCertificate({ commonName: 'EC receiver', keyType: 'ec' })

const DATE = new Date('2026-11-21T08:00:00Z')
const CONTENT = Buffer.from(`UNB+UNOC:3+SENDER+RECEIVER'\r\n${"LIN+1++4711:EN'\n".repeat(40)}UNZ+1+1'`)
const SIGNATURE = { algorithm: 'SHA256', scheme: 'PKCS1', ...sender } as const

const PLAIN: Outgoing = {
  as2From: 'Sender "Ltd"',
  as2To: 'receiver',
  messageId: '<1@sender>',
  subject: 'Rechnung März',
  date: DATE,
  fileName: 'Rechnung März.edi',
  contentType: 'application/edifact; charset=utf-8',
  content: CONTENT,
  compression: 'None',
  signature: null,
  encryption: null,
  receipt: { signed: true, asyncUrl: 'http://sender.example/receipts?a=b' },
  product: 'Waybill/0.1.0',
}

/** Far more than any target allows. */
const BOMB_BYTES = 8_000_000
const BOUNDARY = '=_attachments'
const ATTACHMENTS = Buffer.from(
  [
    `--${BOUNDARY}`,
    'Content-Type: application/edifact; name="a.edi"',
    'Content-Disposition: attachment; filename="a.edi"',
    '',
    "UNB+1'",
    `--${BOUNDARY}`,
    'Content-Type: application/pdf',
    'Content-Transfer-Encoding: base64',
    "Content-Disposition: attachment; filename*=utf-8''M%C3%A4rz.pdf",
    '',
    'JVBERi0xLjcK',
    `--${BOUNDARY}`,
    'Content-Transfer-Encoding: quoted-printable',
    '',
    'M=C3=A4rz=\r\n 2026',
    `--${BOUNDARY}--`,
    '',
  ].join('\r\n'),
)

const VARIANTS: readonly Partial<Outgoing>[] = [
  {},
  { signature: SIGNATURE },
  { signature: { ...SIGNATURE, scheme: 'PSS', algorithm: 'SHA512' }, compression: 'BeforeSigning' },
  { signature: SIGNATURE, compression: 'AfterSigning', transferEncoding: 'base64' },
  { compression: 'BeforeSigning' },
  { contentType: `multipart/related; boundary="${BOUNDARY}"`, content: ATTACHMENTS, fileName: null },
  { signature: SIGNATURE, contentType: `multipart/related; boundary="${BOUNDARY}"`, content: ATTACHMENTS },
]

/** Messages without encryption: what is changed in them is seen by every parser below. */
export async function openSeeds(): Promise<Seed[]> {
  const seeds: Seed[] = []
  for (const variant of VARIANTS) {
    for (const limitBytes of [MAKING.limitBytes, 16]) {
      seeds.push(await composeMessage({ ...PLAIN, ...variant }, { ...MAKING, limitBytes }))
    }
  }
  const entity = Buffer.concat([Buffer.from('Content-Type: application/edifact\r\n\r\n'), CONTENT])
  const opaque = signedData(entity, signerInfo(sender, attributesOf(entity)))
  const bomb = compressedData(Buffer.concat([entity, Buffer.alloc(BOMB_BYTES)]))
  for (const body of [opaque, compressedData(entity), bomb]) {
    seeds.push({ headers: [...envelope(), ['Content-Type', 'application/pkcs7-mime']], body })
  }
  return seeds
}

function envelope(): HeaderList {
  return [
    ['AS2-From', 'sender'],
    ['AS2-To', 'receiver'],
    ['Message-ID', '<1@sender>'],
    ['Disposition-Notification-To', 'sender'],
  ]
}

export async function encryptedSeeds(): Promise<Seed[]> {
  const ciphers: readonly CipherName[] = ['3DES', 'AES128-CBC', 'AES256-GCM']
  const seeds: Seed[] = []
  for (const algorithm of ciphers) {
    for (const { certificate } of [receiver, ecReceiver]) {
      const encryption = { algorithm, keyTransport: 'PKCS1', certificate } as const
      seeds.push(await composeMessage({ ...PLAIN, signature: SIGNATURE, encryption }))
      const making = { ...MAKING, limitBytes: 16 }
      seeds.push(await composeMessage({ ...PLAIN, compression: 'BeforeSigning', encryption }, making))
    }
  }
  const oaep = { algorithm: 'AES192-CBC', keyTransport: 'OAEP', certificate: receiver.certificate } as const
  seeds.push(await composeMessage({ ...PLAIN, encryption: oaep }))
  return seeds
}

export async function receiptSeeds(): Promise<Seed[]> {
  const failed: Disposition = {
    type: 'processed',
    modifier: { kind: 'error', text: 'decryption-failed' },
  }
  const seeds: Seed[] = []
  for (const disposition of [PROCESSED, failed]) {
    for (const signature of [null, SIGNATURE]) {
      seeds.push(
        await composeReceipt({
          as2From: 'receiver',
          as2To: 'sender',
          messageId: '<2@receiver>',
          date: DATE,
          originalMessageId: '<1@sender>',
          disposition,
          mic: { algorithm: 'SHA512', value: Buffer.alloc(64).toString('base64') },
          text: 'The message was received.',
          signature,
          product: 'Waybill/0.1.0',
        }),
      )
    }
  }
  return [...seeds, handWritten()]
}

/** As several products write it: folded fields, no spaces, a text part without headers, no final line break. */
function handWritten(): Seed {
  const body = [
    'preamble',
    '--b=1',
    '',
    'Your message was processed.',
    '--b=1',
    'Content-Type:message/disposition-notification',
    '',
    'Reporting-UA:Product',
    'Original-Recipient:rfc822;receiver',
    'Final-Recipient : rfc822; receiver',
    'Original-Message-ID:1@sender',
    'Disposition:automatic-action/MDN-sent-automatically;processed/Error:x',
    `Received-content-MIC:${Buffer.alloc(32).toString('base64')}\r\n\t,SHA256`,
    '--b=1--',
  ].join('\r\n')
  const type = 'multipart/report;\r\n report-type=disposition-notification;boundary=b=1'
  return { headers: [['content-type', type]], body: Buffer.from(body, 'latin1') }
}
