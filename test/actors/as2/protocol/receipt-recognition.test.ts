import t from 'tap'
import { PROCESSED } from '../../../../actors/as2/protocol/disposition.ts'
import {
  claimedMessageId,
  composeReceipt,
  isReceipt,
  isReceiptType,
} from '../../../../actors/as2/protocol/receipt.ts'
import { begunReceipt } from '../../../../actors/as2/protocol/receipt-beginning.ts'
import { makeCertificate } from '../../../support/certificates.ts'

const receipt = (signed: boolean) =>
  composeReceipt({
    as2From: 'GLOBEX',
    as2To: 'ACME',
    messageId: '<receipt@globex>',
    date: new Date(),
    originalMessageId: '<original@acme>',
    disposition: PROCESSED,
    mic: null,
    text: 'It was received.',
    signature: signed
      ? { algorithm: 'SHA256', scheme: 'PKCS1', ...makeCertificate({ commonName: 'globex' }) }
      : null,
    product: 'Partner/1.0',
  })

const NOTIFICATION = ['Content-Type: message/disposition-notification', '', 'Original-Message-ID: x@y', '']
const multipart = (...parts: readonly (readonly string[])[]): Buffer =>
  Buffer.from(`${parts.map((part) => `--b\r\n${part.join('\r\n')}\r\n`).join('')}--b--\r\n`)
const typed = (type: string): [string, string][] => [['content-type', type]]

t.test('signed or not, a receipt is told from its headers and parts, and names its message', async (t) => {
  for (const signed of [false, true]) {
    const { headers, body } = await receipt(signed)
    t.ok(isReceipt(headers, body))
    t.equal(claimedMessageId(headers, body), '<original@acme>', 'whoever signed it')
  }
  const plain = Buffer.from(
    'Original-Message-ID: <a@b>\r\nDisposition: automatic-action/MDN-sent-automatically; processed\r\n',
  )
  t.ok(isReceipt(typed('message/disposition-notification'), plain))
  t.equal(claimedMessageId(typed('message/disposition-notification'), plain), '<a@b>')
})

t.test('the parts say so where the type of the report is left out', async (t) => {
  const report = multipart(['Content-Type: text/plain', '', 'Received.', ''], NOTIFICATION)
  t.ok(isReceipt(typed('multipart/report; boundary=b'), report))
  t.ok(isReceipt(typed('Multipart/Report; Report-Type="Disposition-Notification"; boundary=b'), report))
})

t.test('the first bytes tell a receipt, and for which message it is once they hold that', async (t) => {
  for (const signed of [false, true]) {
    const { headers, body } = await receipt(signed)
    const named = body.indexOf('<original@acme>') + '<original@acme>\r\n'.length
    const whole = begunReceipt(headers, body)
    t.same(whole, { originalMessageId: '<original@acme>' })
    t.same(begunReceipt(headers, body.subarray(0, named)), whole)
    const before = body.indexOf('Original-Message-ID')
    t.same(begunReceipt(headers, body.subarray(0, before)), { originalMessageId: null })
    const part = signed ? multipart(['Content-Type: application/edifact', '', 'UNB']) : Buffer.from('UNB')
    const message = typed(signed ? 'multipart/signed; boundary=b' : 'application/edifact')
    t.equal(begunReceipt(message, part), null, 'a message is none')
  }
  const report = multipart(['Content-Type: text/plain', '', 'Received.', ''], NOTIFICATION)
  t.same(begunReceipt(typed('multipart/report; boundary=b'), report), { originalMessageId: 'x@y' })
  const other = multipart(['Content-Type: message/delivery-status', '', 'Reporting-MTA: dns; x', ''])
  for (const type of ['multipart/report; boundary=b', 'multipart/report', 'multipart/signed; boundary=b'])
    t.equal(begunReceipt(typed(type), other), null, type)
})

t.test('other reports, and whatever is not readable, are no receipts', async (t) => {
  const report = multipart(['Content-Type: message/delivery-status', '', 'Reporting-MTA: dns; x', ''])
  t.notOk(isReceipt(typed('multipart/report; report-type=delivery-status; boundary=b'), report))
  t.notOk(isReceipt(typed('multipart/report'), report))
  t.notOk(isReceipt(typed('multipart/signed; boundary=b'), multipart()))
  t.notOk(isReceipt(typed('multipart/signed; boundary=b'), report))
  t.notOk(isReceipt([], Buffer.alloc(0)))
  t.equal(claimedMessageId(typed('multipart/report; boundary=b'), report), null)
  t.equal(claimedMessageId(typed('multipart/signed; boundary=b'), Buffer.from('--b')), null)
  const said = multipart(NOTIFICATION)
  t.equal(
    claimedMessageId(typed('multipart/report; boundary=b'), said),
    null,
    'it says nothing of a disposition',
  )
  t.notOk(isReceiptType('multipart/report'))
  t.notOk(isReceiptType('application/pkcs7-mime; smime-type=enveloped-data'))
})
