import t from 'tap'
import type { As2Facts } from '../../../../actors/as2/facts.ts'
import { attemptWithoutReceipt, ForgedReceipt } from '../../../../actors/as2/receipts/forged-receipt.ts'

const facts: As2Facts = {
  message_id: '<1@waybill>',
  as2_from: 'ACME',
  as2_to: 'GLOBEX',
  subject: null,
  signed: true,
  encrypted: true,
  compressed: false,
  algorithms: { signature: 'SHA256', encryption: 'AES256-CBC', compression: null },
  attachments: null,
  attachment_count: null,
  mic: 'AAAA',
  mic_algorithm: 'SHA256',
  receipt: null,
}
const error = 'The receipt is for another message'
const retrying = { state: 'retrying', error, delaySeconds: 60 } as const
const forgedOf = (bytes: number): ForgedReceipt =>
  new ForgedReceipt(error, { failure: new Error(error), stage: Buffer.alloc(bytes) })

void t.test('Forged receipts are told of five attempts and of the last one, not of all', async (t) => {
  const told = (attempts: number, outcome: typeof retrying | { state: 'failed'; error: string }): boolean =>
    attemptWithoutReceipt({ outcome, forged: forgedOf(10), attempts, isAsync: false, facts }).line !== null
  t.same(
    [1, 5, 6, 1_000].map((attempts) => told(attempts, retrying)),
    [true, true, false, false],
  )
  t.ok(told(1_000, { state: 'failed', error }))
})

void t.test('A forged receipt that is too large for a transaction is told, and not kept', async (t) => {
  const kept = (bytes: number) =>
    attemptWithoutReceipt({ outcome: retrying, forged: forgedOf(bytes), attempts: 1, isAsync: false, facts })
  t.equal(kept(256 * 1024).stage?.size_bytes, 256 * 1024)
  t.equal(kept(256 * 1024 + 1).stage, null)
  t.match(kept(256 * 1024 + 1).line, { kind: 'mdn_refused' })
})
