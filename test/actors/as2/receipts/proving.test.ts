import t from 'tap'
import { makeCertificate } from '../../../support/certificates.ts'
import { MODE, startAnswering, type Behaviour, type Wishes, type Write } from './answering-partner.ts'

// How synchronous receipts come, and which ones prove nothing.
t.setTimeout(300_000)

const { acme, loop, send, receipt } = await startAnswering(t)

/** Folded headers, lines that end in LF, and chunks with leading zeros and extensions. */
const odd: Write = ({ socket }, status, { headers, body }) => {
  const folded = headers.map(([name, value]) => `${name}:${value.replaceAll('; ', ';\r\n\t')}\n`)
  const head = `HTTP/1.1 ${status} OK\nConnection: close\n${folded.join('')}Transfer-Encoding: chunked\n\n`
  socket?.write(`${head}000${body.length.toString(16)};a=b\r\n`, 'latin1')
  socket?.write(body)
  socket?.end('\r\n000\r\n\r\n')
}

for (const status of [201, 202, 206]) {
  void t.test(`a receipt that comes with HTTP status ${status} counts`, async (t) => {
    t.equal((await send(receipt({ status }))).state, 'delivered')
  })
}

void t.test('a receipt in an answer of folded headers, bare line ends and odd chunks counts', async (t) => {
  t.equal((await send(receipt({ write: odd }))).state, 'delivered')
})

void t.test('the Message-ID may come back without its brackets', async (t) => {
  const answer: Behaviour = (message, response) =>
    receipt({ originalId: message.messageId?.slice(1, -1) ?? '' })(message, response)
  t.equal((await send(answer)).state, 'delivered')
})

const stranger = makeCertificate({ commonName: 'Globex Waterworks' })
const FORGED: Readonly<Record<string, readonly [Wishes, RegExp]>> = {
  'signed by a stranger': [{ signer: stranger }, /not of any certificate that is known/],
  'signed by ourselves': [{ signer: loop.acme.keys }, /not of any certificate that is known/],
  'of another message': [{ originalId: '<other@acme>' }, /for another message/],
  'that is unsigned': [{ signer: null }, /not signed, as was asked for/],
  'that is unsigned and of no message': [{ signer: null, originalId: null }, /not signed, as was asked for/],
}

for (const [name, [wishes, reason]] of Object.entries(FORGED)) {
  void t.test(`a receipt ${name} is none: it never confirms a message, nor refuses it`, async (t) => {
    for (const disposition of [`${MODE}; processed`, `${MODE}; processed/error: decryption-failed`]) {
      const { error, message } = await send(receipt({ ...wishes, disposition }))
      t.match(error, reason)
      t.match(message.protocols.as2?.receipt, {
        state: 'refused',
        disposition: null,
        mic: null,
        mic_matches: null,
      })
      const lines = message.history.filter(({ kind }) => kind.startsWith('mdn_'))
      t.match(lines, [{ kind: 'mdn_refused', text: /^A receipt was refused and changes nothing: / }])
      t.match(lines[0]?.text, reason)
      const claim = `. Without proof it says: ${disposition}`
      for (const told of [error, lines[0]?.text ?? ''])
        t.equal(told.endsWith(claim), disposition !== `${MODE}; processed`, told)
      const kept = await acme.stage(message, 'receipt')
      t.match(String(kept), /Disposition: automatic-action/, 'it is kept as it travelled')
    }
  })
}

void t.test('of a receipt that names no message, only a refusal by the partner itself counts', async (t) => {
  for (const receipt_mode of ['Sync', 'Async']) {
    await acme.profile('globex', { receipt_mode })
    const disposition = `${MODE}; processed/error: unknown-trading-partner`
    for (const originalId of [null, '']) {
      const refusal = await send(receipt({ originalId, disposition, mic: () => null }))
      t.equal(refusal.error, `The partner refused the message: ${disposition}`)
      t.match(refusal.message.protocols.as2?.receipt, { state: 'refused', disposition })
      const { state, error } = await send(receipt({ originalId }))
      t.equal(state, 'failed')
      t.equal(error, 'The receipt names no message')
    }
  }
  await acme.profile('globex', { receipt_mode: 'Sync', receipt_signed: false })
  const disposition = `${MODE}; processed/error: x`
  const { message, error } = await send(receipt({ signer: null, originalId: null, disposition }))
  t.equal(error, `The receipt names no message. Without proof it says: ${disposition}`)
  t.match(message.protocols.as2?.receipt, { disposition: null })
  await acme.profile('globex', { receipt_signed: true })
})

void t.test('without a receipt that was asked for, the status alone decides', async (t) => {
  await acme.profile('globex', { receipt_mode: 'None' })
  const answer =
    (status: number): Behaviour =>
    async (_, response) =>
      void response.writeHead(status).end()
  for (const status of [200, 202, 204])
    t.equal((await send(answer(status))).state, 'delivered', String(status))
  for (const status of [302, 401, 404, 503]) {
    const { state, error } = await send(answer(status))
    t.equal(state, 'failed')
    t.match(error, `HTTP status ${status}`)
  }
  await acme.profile('globex', { receipt_mode: 'Sync' })
})

void t.test('where no receipt came in all attempts, none is waited for any more', async (t) => {
  for (const receipt_mode of ['Sync', 'Async']) {
    await acme.profile('globex', { receipt_mode })
    for (const status of [400, 500]) {
      const { state, message } = await send(async (_, response) => void response.writeHead(status).end())
      t.equal(state, 'failed')
      t.match(message.protocols.as2?.receipt, { state: 'overdue', disposition: null, at: /^\d{4}-/ })
      t.notOk(message.history.some(({ kind }) => kind.startsWith('mdn_')))
    }
  }
  await acme.profile('globex', { receipt_mode: 'Sync' })
})

void t.test('a forged receipt that answers a message of asynchronous receipts is told, too', async (t) => {
  await acme.profile('globex', { receipt_mode: 'Async' })
  const { state, message } = await send(receipt({ signer: stranger }))
  t.equal(state, 'failed')
  t.match(message.protocols.as2?.receipt, { state: 'overdue' })
  const lines = message.history.filter(({ kind }) => kind.startsWith('mdn_'))
  t.match(lines, [{ kind: 'mdn_refused', text: /not of any certificate that is known/ }])
  const disposition = `${MODE}; processed/error: unknown-trading-partner`
  const unsigned = await send(receipt({ signer: null, disposition, mic: () => null }))
  t.match(unsigned.error, /not signed, as was asked for\. Without proof it says: .*unknown-trading-partner$/)
  t.match(String(await acme.stage(unsigned.message, 'receipt')), disposition, 'it is kept as it travelled')
  await acme.profile('globex', { receipt_mode: 'Sync' })
})
