import t from 'tap'
import { readEnvelope } from '../../../../actors/as2/protocol/envelope.ts'
import type { HeaderList } from '../../../../runtime/mime/headers.ts'

const PARTIES: HeaderList = [
  ['as2-from', '"My \\"Company\\""'],
  ['AS2-To', 'Partner#1'],
]

t.test('The parties, the identifier and the subject are read before anything else', (t) => {
  t.same(
    readEnvelope([...PARTIES, ['Message-Id', ' <a b@c> '], ['SUBJECT', 'M=C3=A4rz =?utf-8?q?M=C3=A4rz?=']]),
    {
      as2From: 'My "Company"',
      as2To: 'Partner#1',
      messageId: '<a b@c>',
      hasInvalidId: false,
      subject: 'M=C3=A4rz März',
      fileName: null,
      receiptRequest: null,
    },
  )
  t.match(readEnvelope(PARTIES), { messageId: null, subject: null })
  t.end()
})

t.test('A message without parties, or with contradicting ones, cannot be answered', (t) => {
  const refused = { name: 'Refusal', modifier: 'unexpected-processing-error' }
  t.throws(() => readEnvelope([]), refused)
  t.throws(() => readEnvelope([['AS2-From', 'a']]), refused)
  t.throws(() => readEnvelope([...PARTIES, ['AS2-To', 'another']]), refused)
  t.doesNotThrow(() => readEnvelope([...PARTIES, ['AS2-To', 'Partner#1']]), 'repeated, the same')
  t.end()
})

t.test('A Message-ID that no receipt can repeat is told, and not used', (t) => {
  for (const id of ['x'.repeat(999), '<tes\u00e9@acme>']) {
    t.match(readEnvelope([...PARTIES, ['Message-ID', id]]), { messageId: null, hasInvalidId: true })
  }
  for (const id of ['x'.repeat(998), 'no brackets', '<a b@c d>', '<"q"@[1.2.3.4]>']) {
    t.match(readEnvelope([...PARTIES, ['Message-ID', id]]), { messageId: id, hasInvalidId: false })
  }
  t.match(readEnvelope(PARTIES), { messageId: null, hasInvalidId: false })
  t.end()
})

t.test('The file is named by Content-Disposition, but for the names of S/MIME objects', (t) => {
  const named = (disposition: string): string | null =>
    readEnvelope([
      ...PARTIES,
      ['Content-Type', 'text/plain; name="x.txt"'],
      ['Content-Disposition', disposition],
    ]).fileName
  t.equal(named('attachment; filename="real.edi"'), 'real.edi')
  t.equal(named("attachment; filename*=UTF-8''M%C3%A4rz.edi"), 'März.edi')
  t.equal(named('attachment; filename="smimes.edi"'), 'smimes.edi')
  for (const name of ['smime.p7m', 'SMIME.P7Z', 'smime', 'smime.txt', 'real.edi.p7m', 'real.p7s', '']) {
    t.equal(named(`attachment; filename="${name}"`), null, name)
  }
  t.equal(named('attachment'), null)
  t.end()
})

t.test('The receipt request is read in every form of RFC 4130 §7.3', (t) => {
  const request = (options?: string, url?: string): unknown =>
    readEnvelope([
      ...PARTIES,
      ['Disposition-Notification-To', 'anything'],
      ...(options === undefined ? [] : [['Disposition-Notification-Options', options] as const]),
      ...(url === undefined ? [] : [['Receipt-Delivery-Option', url] as const]),
    ]).receiptRequest
  t.same(request(), { signed: false, micAlgorithms: [], asyncUrl: null, unsupported: null })
  t.same(
    request(
      'signed-receipt-protocol=optional, pkcs7-signature; signed-receipt-micalg=optional, sha-256, sha1',
    ),
    { signed: true, micAlgorithms: ['SHA256', 'SHA1'], asyncUrl: null, unsupported: null },
  )
  t.same(
    request(
      'Signed-Receipt-Protocol=REQUIRED,PKCS7-Signature;signed-receipt-micalg=required,whirlpool,SHA2_512',
      'https://partner.example/receipts?id=1&x=%20',
    ),
    {
      signed: true,
      micAlgorithms: ['SHA512'],
      asyncUrl: 'https://partner.example/receipts?id=1&x=%20',
      unsupported: null,
    },
  )
  t.match(request('signed-receipt-protocol=required, pgp-signature'), { unsupported: 'unsupported format' })
  t.match(
    request('signed-receipt-protocol=optional, pkcs7-signature; signed-receipt-micalg=required, whirlpool'),
    {
      signed: true,
      unsupported: 'unsupported MIC-algorithms',
    },
  )
  t.match(request('signed-receipt-protocol=optional, pgp-signature'), { signed: false, unsupported: null })
  t.end()
})
