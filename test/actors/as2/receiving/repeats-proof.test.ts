import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { composeMessage } from '../../../../actors/as2/protocol/compose.ts'
import { micEquals } from '../../../../actors/as2/protocol/mic.ts'
import { As2Correspondent, signedBy, type Answered, type Sent } from '../../../support/as2-correspondent.ts'
import { openLoop } from '../../../support/as2-loop.ts'
import { makeCertificate } from '../../../support/certificates.ts'

// The names in the headers make a repeat, but anybody can write them: who gets the stored receipt has to show more.
t.setTimeout(300_000)

const { waybill, loop } = await openLoop(t)
const acme = new As2Correspondent(waybill, loop)
const stranger = makeCertificate({ commonName: 'Acme Pumps' })

/** Beyond what is handled in memory. */
const LARGE = { content: randomBytes(2 * 1024 * 1024), compression: 'None' } as const

/** What somebody sends who knows the names of a message, and nothing else. */
function rubbishUnder({ composed }: Sent, body: Buffer): Promise<Answered> {
  const headers = composed.headers.map(
    ([name, value]) => [name, name === 'Content-Type' ? 'text/plain' : value] as const,
  )
  return acme.post(headers, body)
}

async function linesOf({ message }: Sent): Promise<number> {
  const records = await acme.recordsOf(message.messageId)
  return records.flatMap(({ history }) => history).filter(({ kind }) => kind === 'duplicate_received').length
}

async function isRefusedApart(t: Test, sent: Sent, answer: Answered): Promise<void> {
  t.notOk(answer.body.equals(sent.body), 'the stored receipt is not given out')
  t.match(await acme.receiptOf(answer), { disposition: { modifier: { kind: 'error' } } })
  t.equal(await linesOf(sent), 0, 'it is no repeat')
  const statuses = (await acme.recordsOf(sent.message.messageId)).map(({ status }) => status)
  t.equal(statuses.filter((status) => status === 'Refused').length, 1, 'it is kept as refused')
  t.equal(statuses.length, 2)
}

for (const [name, changes, rubbish] of [
  ['', {}, Buffer.from('rubbish')],
  [' of 2 MiB', LARGE, randomBytes(2 * 1024 * 1024)],
] as const) {
  void t.test(`rubbish${name} under a known Message-ID is refused, and gets no stored receipt`, async (t) => {
    const sent = await acme.send(changes)
    await isRefusedApart(t, sent, await rubbishUnder(sent, rubbish))
  })

  void t.test(`a message${name} that a stranger signed gets none either`, async (t) => {
    const sent = await acme.send(changes)
    await isRefusedApart(t, sent, await acme.send({ ...sent.message, signature: signedBy(stranger) }))
  })

  void t.test(`a repeat${name} may be signed and encrypted anew`, async (t) => {
    const sent = await acme.send(changes)
    const again = await acme.send(sent.message)
    t.notOk(again.composed.body.equals(sent.composed.body), 'it has other bytes')
    t.ok(again.body.equals(sent.body))
    t.equal(await linesOf(sent), 1)
  })

  void t.test(`the same bytes${name} are a repeat also when their signer counts no more`, async (t) => {
    const sent = await acme.send(changes)
    await acme.profile('acme', { partner_signing_certificate_id: loop.globex.certificate })
    t.teardown(async () => acme.profile('acme', { partner_signing_certificate_id: null }))
    const again = await acme.post(sent.composed.headers, sent.composed.body)
    t.ok(again.body.equals(sent.body))
    t.equal(await linesOf(sent), 1)
  })

  void t.test(
    `who signed a message${name} is known by its repeat, made anew, whatever the profile says by now`,
    async (t) => {
      const sent = await acme.send(changes)
      await acme.profile('acme', { partner_signing_certificate_id: loop.globex.certificate })
      t.teardown(async () => acme.profile('acme', { partner_signing_certificate_id: null }))
      const anew = await composeMessage(sent.message)
      t.notOk(anew.body.equals(sent.composed.body), 'it has other bytes')
      const again = await acme.post(anew.headers, anew.body)
      t.ok(again.body.equals(sent.body), 'it gets the stored receipt, byte for byte')
      t.equal(await linesOf(sent), 1)
      t.equal((await acme.recordsOf(sent.message.messageId)).length, 1, 'nothing is kept as refused')
    },
  )

  void t.test(`he is not known by other content${name}, nor by another signature, nor by none`, async (t) => {
    for (const [what, again] of [
      ['other content', { content: randomBytes('content' in changes ? changes.content.length : 20) }],
      ['another signer', { signature: signedBy(stranger) }],
      ['no signature', { signature: null }],
    ] as const) {
      t.comment(what)
      const sent = await acme.send(changes)
      await acme.profile('acme', { partner_signing_certificate_id: loop.globex.certificate })
      const answer = await acme.send({ ...sent.message, ...again })
      await acme.profile('acme', { partner_signing_certificate_id: null })
      await isRefusedApart(t, sent, answer)
    }
  })

  void t.test(
    `a message${name} that first wanted no receipt gets one with its repeat that does`,
    async (t) => {
      const sent = await acme.send({ ...changes, receipt: null })
      t.equal(sent.body.length, 0)
      const wanted = { ...sent.message, receipt: { signed: true, asyncUrl: null } }
      const again = await acme.send(wanted)
      const receipt = await acme.receiptOf(again)
      t.match(receipt, { signed: true, disposition: { type: 'processed', modifier: null } })
      t.ok(receipt.mic !== null && micEquals(receipt.mic, again.composed.mic), 'over what was sent')
      const [record, ...others] = await acme.recordsOf(sent.message.messageId)
      t.same(others, [])
      if (record === undefined) throw new Error('It is not recorded')
      t.match(record.protocols.as2?.receipt, { mode: 'Sync', signed: true, state: 'sent', mic_matches: null })
      t.ok(
        (await acme.stage(record, 'receipt'))?.subarray(-again.body.length).equals(again.body),
        'it is stored',
      )
      const answers = await Promise.all([1, 2, 3].map(() => acme.send(wanted)))
      t.ok(
        answers.every(({ body }) => body.equals(again.body)),
        'and answers all that come',
      )
      t.equal((await acme.send(sent.message)).body.equals(again.body), true)
      t.equal(await linesOf(sent), 5)
    },
  )

  void t.test(`such a repeat of a message${name} with other content is told of what was taken`, async (t) => {
    const sent = await acme.send({ ...changes, receipt: null })
    const content = randomBytes(sent.message.content.length)
    const again = await acme.send({ ...sent.message, content, receipt: { signed: true, asyncUrl: null } })
    const { mic } = await acme.receiptOf(again)
    t.ok(mic !== null && micEquals(mic, sent.composed.mic))
    t.notOk(mic !== null && micEquals(mic, again.composed.mic))
  })

  void t.test(`an unsigned one${name} gets the MIC that its repeat asks for`, async (t) => {
    const plain = { ...changes, signature: null, encryption: null, compression: 'None' } as const
    await acme.profile('acme', { require_signed: false, require_encrypted: false })
    t.teardown(async () => acme.profile('acme', { require_signed: true, require_encrypted: true }))
    const sent = await acme.send({ ...plain, receipt: null })
    const again = await acme.send({ ...sent.message, receipt: { signed: true, asyncUrl: null } })
    const { mic } = await acme.receiptOf(again)
    t.ok(mic !== null && micEquals(mic, again.composed.mic))
  })

  void t.test(`what was taken${name} without a signature is answered without one`, async (t) => {
    await acme.profile('acme', { require_signed: false, require_encrypted: false })
    const sent = await acme.send({ ...changes, signature: null, encryption: null })
    await acme.profile('acme', { require_signed: true, require_encrypted: true })
    const again = await acme.send({ ...sent.message, content: Buffer.from('anything') })
    t.ok(again.body.equals(sent.body))
    t.equal(await linesOf(sent), 1)
  })
}
