import t from 'tap'
import { openLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent, signedBy } from '../../../support/as2-correspondent.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { allMessages, type ExchangedMessage } from '../../../support/exchanged-messages.ts'
import { dropFile } from '../../../support/file-set.ts'
import { until } from '../../../support/processes.ts'

t.setTimeout(300_000)

const { waybill, loop } = await openLoop(t)
const acme = new As2Correspondent(waybill, loop)

const expired = makeCertificate({ commonName: 'expired', days: -10 })
const early = makeCertificate({ commonName: 'early', age: -10 })
const expiredId = await acme.store(expired)
const earlyId = await acme.store(early)

async function untilState(name: string, states: readonly string[]): Promise<ExchangedMessage> {
  let found: ExchangedMessage | undefined
  await until(async () => {
    found = (await allMessages(waybill)).find(
      ({ file_name, direction }) => file_name === name && direction === 'outbound',
    )
    return states.includes(found?.deliveries[0]?.state ?? '')
  })
  if (found === undefined) throw new Error(`${name} was not sent`)
  return found
}

for (const [name, keys, id, reason] of [
  ['that has expired', expired, expiredId, /certificate expired \(id \d+\) expired on 20/],
  ['that is not valid yet', early, earlyId, /certificate early \(id \d+\) is valid from 20\S+ on only/],
] as const) {
  void t.test(`a message signed with a certificate of the partner ${name} is refused`, async (t) => {
    await acme.profile('acme', { partner_signing_certificate_id: id })
    const sent = await acme.send({ signature: signedBy(keys) })
    t.match(await acme.receiptOf(sent), {
      signed: true,
      disposition: { type: 'processed', modifier: { kind: 'error', text: 'authentication-failed' } },
    })
    const [record] = await acme.recordsOf(sent.message.messageId)
    t.equal(record?.status, 'Refused')
    t.match(record?.history[0]?.text, reason)
  })

  void t.test(
    `it is taken, and the history tells, where the profile lets such certificates count`,
    async (t) => {
      await acme.profile('acme', { partner_signing_certificate_id: id, accept_expired_certificates: true })
      const sent = await acme.send({ signature: signedBy(keys) })
      await acme.profile('acme', { partner_signing_certificate_id: null, accept_expired_certificates: false })
      t.match(await acme.receiptOf(sent), { disposition: { type: 'processed', modifier: null } })
      const [record] = await acme.recordsOf(sent.message.messageId)
      t.match(record?.history[0]?.text, reason)
    },
  )
}

void t.test(
  'nothing is encrypted to an expired certificate: the delivery fails with that reason',
  async (t) => {
    const change = {
      partner_certificate_id: expiredId,
      partner_signing_certificate_id: loop.globex.certificate,
    }
    await acme.profile('globex', change)
    await dropFile(loop.outbox, 'expired.edi', 'content')
    const failed = await untilState('expired.edi', ['failed'])
    t.equal(failed.status, 'Error')
    t.match(
      failed.deliveries[0]?.last_error,
      /Nothing is encrypted to globex: .*expired \(id \d+\) expired on 20/,
    )

    await acme.profile('globex', { partner_certificate_id: loop.globex.certificate })
    const [delivery] = failed.deliveries as unknown as { readonly id: string }[]
    await waybill.request('POST', `/messages/${failed.id}/deliveries/${delivery?.id}/redeliver`)
    t.equal((await untilState('expired.edi', ['delivered'])).status, 'Delivered')
  },
)

void t.test('our own expired certificates go on: no message is lost for them', async (t) => {
  const own = makeCertificate({ commonName: 'own expired', days: -1 })
  const id = await acme.store(own, true)
  await acme.localProfile('globex', { decryption_certificate_id: id, signing_certificate_id: id })
  const sent = await acme.send({
    encryption: { algorithm: 'AES256-CBC', keyTransport: 'PKCS1', certificate: own.certificate },
  })
  await acme.localProfile('globex', {
    decryption_certificate_id: loop.globex.certificate,
    signing_certificate_id: loop.globex.certificate,
  })
  t.match(await acme.receiptOf(sent, [own]), {
    signed: true,
    disposition: { type: 'processed', modifier: null },
  })
})

void t.test(
  'a receipt that is signed with an expired certificate counts only where the profile says so',
  async (t) => {
    const own = makeCertificate({ commonName: 'globex expired', days: -1 })
    const id = await acme.store(own, true)
    await acme.localProfile('globex', { signing_certificate_id: id })
    await acme.profile('globex', { partner_signing_certificate_id: id })
    await dropFile(loop.outbox, 'receipt.edi', 'content')
    const waiting = await untilState('receipt.edi', ['retrying', 'delivered'])
    t.equal(waiting.status, 'Retrying')
    t.match(waiting.deliveries[0]?.last_error, /certificate globex expired \(id \d+\) expired on/)
    await acme.profile('globex', { accept_expired_certificates: true })
    const delivered = await untilState('receipt.edi', ['delivered', 'failed'])
    t.equal(delivered.status, 'Delivered')
    const line = delivered.history.find(({ kind }) => kind === 'mdn_received')
    t.match(line?.text, /processed \(accepted, though the certificate globex expired \(id \d+\) expired on/)
  },
)
