import t from 'tap'
import type { ExchangedMessage } from '../../../support/exchanged-messages.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { MODE, startAnswering, type Behaviour } from './answering-partner.ts'

// A message that has its partner's receipt is delivered again: only another genuine receipt takes the place of that one.
t.setTimeout(300_000)

const { acme, send, sendAgain, receipt } = await startAnswering(t)
const stranger = makeCertificate({ commonName: 'Globex Waterworks' })
const negative = `${MODE}; processed/error: decryption-failed`

const NO_RECEIPTS: Readonly<Record<string, Behaviour>> = {
  'a forged receipt': receipt({ signer: stranger }),
  'a forged negative receipt': receipt({ signer: stranger, disposition: negative }),
  'an unsigned receipt': receipt({ signer: null, disposition: negative }),
  'the receipt of another message': receipt({ originalId: '<other@acme>' }),
  'HTTP status 500': async (_, response) => void response.writeHead(500).end(),
  'nothing that is a receipt': async (_, response) => void response.end('thank you'),
}

const receiptOf = async (message: ExchangedMessage) => ({
  facts: message.protocols.as2?.receipt,
  bytes: await acme.stage(message, 'receipt'),
})

for (const receipt_mode of ['Sync', 'Async']) {
  for (const disposition of [`${MODE}; processed`, negative]) {
    void t.test(`${receipt_mode}: what is no receipt leaves ${disposition}`, async (t) => {
      await acme.profile('globex', { receipt_mode })
      const { message } = await send(receipt({ disposition }))
      const genuine = await receiptOf(message)
      t.match(genuine.facts, { disposition })
      t.match(String(genuine.bytes), disposition)
      for (const [name, answer] of Object.entries(NO_RECEIPTS)) {
        if (receipt_mode === 'Async' && name === 'nothing that is a receipt') continue
        const again = await sendAgain(message, answer)
        t.equal(again.state, 'failed', name)
        t.same(await receiptOf(again.message), genuine, name)
      }
      await acme.profile('globex', { receipt_mode: 'Sync' })
    })
  }
}

void t.test('a forged receipt is told in the history', async (t) => {
  const { message } = await send(receipt())
  const again = await sendAgain(message, receipt({ signer: stranger }))
  t.match(
    again.message.history.filter(({ kind }) => kind.startsWith('mdn_')),
    [
      { kind: 'mdn_received' },
      { kind: 'mdn_refused', text: /^A receipt was refused and changes nothing: .*not of any certificate/ },
    ],
  )
})

void t.test('another genuine receipt takes the place of the one before', async (t) => {
  const { message } = await send(receipt())
  for (const disposition of [negative, `${MODE}; processed`]) {
    const again = await sendAgain(message, receipt({ disposition }))
    const { facts, bytes } = await receiptOf(again.message)
    t.match(facts, { disposition, state: disposition === negative ? 'refused' : 'received' })
    t.match(String(bytes), disposition)
  }
})

void t.test('delivered again without asking for a receipt, the one before stays', async (t) => {
  const { message } = await send(receipt())
  const genuine = await receiptOf(message)
  await acme.profile('globex', { receipt_mode: 'None' })
  const again = await sendAgain(message, async (_, response) => void response.end())
  t.equal(again.state, 'delivered')
  t.same(await receiptOf(again.message), genuine)
  await acme.profile('globex', { receipt_mode: 'Sync' })
})
