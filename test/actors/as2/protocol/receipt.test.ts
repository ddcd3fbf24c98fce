import fc from 'fast-check'
import t from 'tap'
import { PROCESSED } from '../../../../actors/as2/protocol/disposition.ts'
import { micOf } from '../../../../actors/as2/protocol/mic.ts'
import { composeReceipt, isReceipt, readReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import type { OutgoingReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { dispositionOf, REFUSALS } from '../../../../actors/as2/protocol/refusal.ts'
import type { RefusalModifier } from '../../../../actors/as2/protocol/refusal.ts'
import { makeCertificate } from '../../../support/certificates.ts'

const partner = makeCertificate({ commonName: 'Partner' })
const stranger = makeCertificate({ commonName: 'Stranger' })
const signers = [partner.certificate]

const SIGNED: OutgoingReceipt = {
  as2From: 'the receiver',
  as2To: 'sender',
  messageId: '<mdn@receiver>',
  date: new Date('2026-11-21T08:00:00Z'),
  originalMessageId: '<1@sender>',
  disposition: PROCESSED,
  mic: micOf('SHA256', Buffer.from('content')),
  text: 'The message was received.',
  signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...partner },
  product: 'Waybill/0.1.0',
}

t.test('A signed receipt says what happened to which message', async (t) => {
  const { headers, body } = await composeReceipt(SIGNED)
  t.match(new Map(headers).get('Content-Type'), /^multipart\/signed; .*micalg=sha-256/)
  t.equal(new Map(headers).get('AS2-From'), '"the receiver"')
  t.match(
    body.toString('latin1'),
    'Original-Recipient: rfc822; "the receiver"\r\nFinal-Recipient: rfc822; "the receiver"',
  )
  t.same(await readReceipt({ headers, body, signers }), {
    signed: true,
    disposition: PROCESSED,
    dispositionText: 'automatic-action/MDN-sent-automatically; processed',
    originalMessageId: '<1@sender>',
    mic: SIGNED.mic,
    messageId: '<mdn@receiver>',
    text: 'The message was received.',
  })
  t.ok(isReceipt(headers, body))
})

t.test('Every refusal travels in a receipt, signed with any digest or not at all', async (t) => {
  for (const modifier of Object.keys(REFUSALS) as RefusalModifier[]) {
    for (const algorithm of [null, 'SHA1', 'SHA384', 'SHA512'] as const) {
      const signature = algorithm === null ? null : { algorithm, scheme: 'PKCS1' as const, ...partner }
      const { headers, body } = await composeReceipt({
        ...SIGNED,
        signature,
        mic: null,
        messageId: null,
        disposition: dispositionOf(modifier),
        text: REFUSALS[modifier].text,
      })
      const receipt = await readReceipt({ headers, body, signers })
      t.match(receipt, {
        signed: algorithm !== null,
        mic: null,
        messageId: null,
        text: REFUSALS[modifier].text,
      })
      t.same(receipt.disposition, dispositionOf(modifier))
      t.ok(isReceipt(headers, body))
    }
  }
})

t.test('The original Message-ID is echoed exactly', async () => {
  const ids = fc.string({ minLength: 1, maxLength: 998 }).filter((id) => id.trim() === id && id !== '')
  await fc.assert(
    fc.asyncProperty(ids, async (originalMessageId) => {
      const { headers, body } = await composeReceipt({ ...SIGNED, originalMessageId, signature: null })
      return (await readReceipt({ headers, body, signers: [] })).originalMessageId === originalMessageId
    }),
  )
})

t.test('A forged receipt is refused', async (t) => {
  const { headers, body } = await composeReceipt(SIGNED)
  await t.rejects(readReceipt({ headers, body, signers: [stranger.certificate] }), {
    name: 'Refusal',
    modifier: 'authentication-failed',
  })
  await t.rejects(readReceipt({ headers, body, signers: [] }), {
    name: 'Refusal',
    modifier: 'authentication-failed',
  })
  const altered = Buffer.from(body.toString('latin1').replace('<1@sender>', '<2@sender>'), 'latin1')
  await t.rejects(readReceipt({ headers, body: altered, signers }), {
    name: 'Refusal',
    modifier: 'integrity-check-failed',
  })
})

t.test('Receipts are read as they are seen in the wild', async (t) => {
  const { value } = micOf('SHA512', Buffer.from('x'))
  const body = [
    '--=_b',
    'The message was received and has no headers in this part.',
    '--=_b',
    'content-type: message/disposition-notification',
    '',
    '',
    'reporting-ua:Sterling',
    '',
    'Final-Recipient: rfc822;somebody else',
    'ORIGINAL-MESSAGE-ID:  1@sender',
    'Disposition: Automatic-Action/MDN-Sent-Automatically ;Processed/Error:unknown-trading-partner',
    `Received-Content-MIC: ${value.slice(0, 60)}`,
    `\t${value.slice(60)},SHA512`,
    '--=_b--',
  ].join('\n')
  const headers = [
    ['Content-type', 'MULTIPART/REPORT;Report-Type=disposition-notification;boundary="=_b"'],
  ] as const
  const receipt = await readReceipt({ headers, body: Buffer.from(body), signers: [] })
  t.match(receipt, {
    signed: false,
    disposition: { type: 'processed', modifier: { kind: 'error', text: 'unknown-trading-partner' } },
    originalMessageId: '1@sender',
    mic: { algorithm: 'SHA512', value },
    messageId: null,
    text: 'The message was received and has no headers in this part.',
  })
})

t.test('A notification in base64 is read', async (t) => {
  const notification =
    'Original-Message-ID: <1@sender>\r\nDisposition: automatic-action/x; failed/failure: sender-equals-receiver\r\n'
  const body = `--b\r\nContent-Type: message/disposition-notification\r\nContent-Transfer-Encoding: base64\r\n\r\n${Buffer.from(notification).toString('base64')}\r\n--b--\r\n`
  const receipt = await readReceipt({
    headers: [['Content-Type', 'multipart/report; boundary=b']],
    body: Buffer.from(body),
    signers: [],
  })
  t.match(receipt, { disposition: { type: 'failed', modifier: { kind: 'failure' } }, mic: null, text: '' })
})

t.test('An answer that is no receipt is refused', async (t) => {
  const cases: [string, string][] = [
    ['text/html', '<html>'],
    ['multipart/report; boundary=b', '--b\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b--'],
    ['multipart/report; boundary=b', 'nothing'],
    ['multipart/signed; boundary=b', '--b\r\n\r\nx\r\n--b--'],
    ['message/disposition-notification', 'Disposition: automatic-action/x; displayed\r\n'],
    ['message/disposition-notification', 'no fields at all'],
    ['', ''],
  ]
  for (const [type, body] of cases) {
    await t.rejects(
      readReceipt({ headers: [['Content-Type', type]], body: Buffer.from(body), signers }),
      { name: 'Refusal', modifier: 'unexpected-processing-error' },
      `${type}: ${body}`,
    )
  }
  t.notOk(isReceipt([['Content-Type', 'text/plain']], Buffer.from('x')))
  t.notOk(isReceipt([['Content-Type', 'multipart/signed']], Buffer.from('x')))
})

t.test('A receipt cannot be made to carry another header', async (t) => {
  await t.rejects(composeReceipt({ ...SIGNED, originalMessageId: 'a\r\nDisposition: x' }), {
    name: 'ComposeError',
  })
  await t.rejects(composeReceipt({ ...SIGNED, text: 'größer' }), { name: 'ComposeError' })
})
