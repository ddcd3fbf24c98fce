import fc from 'fast-check'
import t from 'tap'
import { PROCESSED } from '../../../../actors/as2/protocol/disposition.ts'
import { formatMic, micOf } from '../../../../actors/as2/protocol/mic.ts'
import {
  claimedMessageId,
  composeReceipt,
  isReceipt,
  readReceipt,
} from '../../../../actors/as2/protocol/receipt.ts'
import type { OutgoingReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { dispositionOf, REFUSALS } from '../../../../actors/as2/protocol/refusal.ts'
import type { RefusalModifier } from '../../../../actors/as2/protocol/refusal.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { signedData } from './crafted-cms.ts'
import { opaqueSigned, receiptWithin } from './opaque-signed.ts'

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
    signer: { certificate: partner.certificate, certificates: [partner.certificate] },
    unverified: false,
    disposition: PROCESSED,
    dispositionText: 'automatic-action/MDN-sent-automatically; processed',
    originalMessageId: '<1@sender>',
    mic: SIGNED.mic,
    unreadableMic: null,
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

t.test('A receipt within its signature is read as one beside it', async (t) => {
  const made = await composeReceipt({ ...SIGNED, signature: null })
  const { headers, body } = receiptWithin(made, partner)
  const spellings = [headers, [['content-type', 'Application/X-PKCS7-MIME']]] as const
  for (const each of spellings) {
    for (const sent of [body, Buffer.from(body.toString('base64').replace(/(.{64})/g, '$1\r\n'))]) {
      t.ok(isReceipt(each, sent))
      t.equal(claimedMessageId(each, sent), '<1@sender>')
      t.match(await readReceipt({ headers: each, body: sent, signers }), {
        signed: true,
        signer: { certificate: partner.certificate },
        disposition: PROCESSED,
        originalMessageId: '<1@sender>',
        mic: SIGNED.mic,
      })
    }
  }
  const read = (given: typeof made, by = signers) => readReceipt({ ...given, signers: by })
  const notOurs = { name: 'Refusal', modifier: 'authentication-failed' }
  await t.rejects(read({ headers, body }, [stranger.certificate]), notOurs)
  const altered = Buffer.from(body.toString('latin1').replace('<1@sender>', '<2@sender>'), 'latin1')
  await t.rejects(read({ headers, body: altered }), { name: 'Refusal', modifier: 'integrity-check-failed' })
  const noReceipt = { name: 'Refusal', modifier: 'unexpected-processing-error' }
  for (const other of [
    signedData(null),
    Buffer.from('rubbish'),
    opaqueSigned(Buffer.from('x'), partner).body,
  ]) {
    await t.rejects(read({ headers, body: other }), { name: 'Refusal' })
    t.notOk(isReceipt(headers, other))
    t.equal(claimedMessageId(headers, other), null)
  }
  const enveloped = [['Content-Type', 'application/pkcs7-mime; smime-type=enveloped-data']] as const
  t.notOk(isReceipt(enveloped, body), 'what says that it is encrypted is not looked into')
  await t.rejects(read({ headers: enveloped, body }), noReceipt)
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

t.test('A receipt that contradicts itself proves nothing, repeated or in another order', async (t) => {
  const mics = ['one', 'other'].map((content) => formatMic(micOf('SHA256', Buffer.from(content))))
  const said: Readonly<Record<string, readonly string[]>> = {
    Disposition: ['x; processed', 'x; processed/error: decryption-failed'],
    'Received-content-MIC': mics,
    'Original-Message-ID': ['<1@sender>', '<2@sender>'],
  }
  const fieldsOf = (name: string, values: readonly string[]): string[] =>
    Object.entries(said).flatMap(([field, [first = '']]) =>
      (field === name ? values : [first]).map((value) => `${field}: ${value}`),
    )
  const report = (...notifications: readonly (readonly string[])[]): Buffer =>
    Buffer.from(
      `${notifications
        .map(
          (fields) =>
            `--b\r\nContent-Type: message/disposition-notification\r\n\r\n${fields.join('\r\n')}\r\n`,
        )
        .join('')}--b--\r\n`,
    )
  const headers = [['Content-Type', 'multipart/report; boundary=b']] as const
  const read = (body: Buffer) => readReceipt({ headers, body, signers: [] })
  const refusal = { name: 'Refusal', modifier: 'unexpected-processing-error' }
  for (const [name, values] of Object.entries(said)) {
    const reason = new RegExp(`the receipt has ${name} with different values`, 'i')
    for (const order of [values, values.toReversed(), [values[0] ?? '', ...values]]) {
      await t.rejects(read(report(fieldsOf(name, order))), { ...refusal, reason }, name)
    }
    const [first = ''] = values
    t.match(await read(report(fieldsOf(name, [first, first]))), {
      disposition: PROCESSED,
      originalMessageId: '<1@sender>',
      mic: { algorithm: 'SHA256' },
    })
  }
  const one = fieldsOf('', [])
  await t.rejects(read(report(one, one)), { ...refusal, reason: /more than one disposition notification/ })
  const contradicting = report(fieldsOf('Disposition', said['Disposition'] ?? []))
  t.equal(claimedMessageId(headers, contradicting), '<1@sender>', 'what it is for is known all the same')
  const ofTwo = report(fieldsOf('Original-Message-ID', said['Original-Message-ID'] ?? []))
  t.equal(claimedMessageId(headers, ofTwo), null, 'unless it says two')
})

t.test('A receipt cannot be made to carry another header', async (t) => {
  await t.rejects(composeReceipt({ ...SIGNED, originalMessageId: 'a\r\nDisposition: x' }), {
    name: 'ComposeError',
  })
  await t.rejects(composeReceipt({ ...SIGNED, text: 'größer' }), { name: 'ComposeError' })
})
