import t from 'tap'
import { setUpLoop, startLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent, encryptedTo, signedBy } from '../../../support/as2-correspondent.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { allMessages, untilDelivered } from '../../../support/exchanged-messages.ts'
import { dropFile } from '../../../support/file-set.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

// Acme sends to Globex without a pause while the certificates of both are replaced, each on the side of its owner and
// on the other one, in the order that the profiles describe.
t.setTimeout(600_000)

const directory = await temporaryDirectory(t)
const waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop = await setUpLoop(waybill, { directory, retryInitialSeconds: 10 })
await startLoop(waybill)
const companies = new As2Correspondent(waybill, loop)
const old = { acme: loop.acme.certificate, globex: loop.globex.certificate }
const keys = {
  acme: makeCertificate({ commonName: 'Acme Pumps 2' }),
  globex: makeCertificate({ commonName: 'Globex Waterworks 2' }),
}
const renewed = {
  acme: await companies.store(keys.acme, true),
  globex: await companies.store(keys.globex, true),
}

let dropped = 0
const end = new AbortController()

/** Keeps some messages on their way all the time. */
async function exchange(): Promise<void> {
  while (!end.signal.aborted) {
    await dropFile(loop.outbox, nameOf(dropped), `content ${dropped}`)
    dropped += 1
    await until(async () => dropped - (await deliveredNames()).size < 10)
  }
}

const nameOf = (index: number): string => `change-${index}.edi`

async function deliveredNames(): Promise<ReadonlySet<string>> {
  const path = '/messages?direction=outbound&status=Delivered&limit=500'
  const { messages } = await waybill.request<{ messages: { file_name: string }[] }>('GET', path)
  return new Set(messages.map(({ file_name }) => file_name))
}

/** What was on its way is delivered, and some messages more, made under what holds now. */
async function someMore(): Promise<void> {
  const reached = dropped + 5
  const names = Array.from({ length: reached }, (_, index) => nameOf(index))
  await until(async () => new Set(names).isSubsetOf(await deliveredNames()))
}

const STEPS: readonly (readonly [string, () => Promise<void>])[] = [
  [
    'globex decrypts with both',
    () =>
      companies.localProfile('globex', {
        decryption_certificate_id: renewed.globex,
        previous_decryption_certificate_id: old.globex,
      }),
  ],
  [
    'acme accepts both of globex',
    () =>
      companies.profile('globex', {
        partner_signing_certificate_id: renewed.globex,
        previous_partner_signing_certificate_id: old.globex,
      }),
  ],
  [
    'acme encrypts to the new one',
    () => companies.profile('globex', { partner_certificate_id: renewed.globex }),
  ],
  [
    'globex signs receipts with the new one',
    () => companies.localProfile('globex', { signing_certificate_id: renewed.globex }),
  ],
  [
    'globex accepts both of acme',
    () =>
      companies.profile('acme', {
        partner_certificate_id: renewed.acme,
        previous_partner_signing_certificate_id: old.acme,
      }),
  ],
  [
    'acme signs with the new one',
    () =>
      companies.localProfile('acme', {
        signing_certificate_id: renewed.acme,
        decryption_certificate_id: renewed.acme,
        previous_decryption_certificate_id: old.acme,
      }),
  ],
  [
    'both forget the old ones',
    async () => {
      await companies.profile('acme', { previous_partner_signing_certificate_id: null })
      await companies.profile('globex', { previous_partner_signing_certificate_id: null })
      await companies.localProfile('acme', { previous_decryption_certificate_id: null })
    },
  ],
]

void t.test(
  'certificates of both sides are replaced while messages flow: none is refused or lost',
  async (t) => {
    const flow = exchange()
    for (const [, change] of STEPS) {
      await someMore()
      await change()
    }
    await someMore()
    end.abort()
    await flow
    await untilDelivered(waybill, 2 * dropped)
    const all = await allMessages(waybill)
    t.ok(dropped >= 5 * STEPS.length)
    t.equal(all.length, 2 * dropped, 'one outbound and one inbound message a file')
    t.same(
      all.filter(({ status }) => status !== 'Delivered'),
      [],
    )
    t.ok(
      all.every(({ deliveries }) => deliveries.every(({ attempts }) => attempts === 1)),
      'none was tried twice',
    )
  },
)

void t.test('the previous certificate counts until it is removed, and then not any more', async (t) => {
  const toOld = { encryption: encryptedTo(loop.globex.keys), signature: signedBy(keys.acme) }
  t.match(await companies.receiptOf(await companies.send(toOld), [keys.globex]), {
    disposition: { type: 'processed', modifier: null },
  })
  await companies.localProfile('globex', { previous_decryption_certificate_id: null })
  t.match(await companies.receiptOf(await companies.send(toOld), [keys.globex]), {
    disposition: { modifier: { text: 'decryption-failed' } },
  })
  const byOld = { encryption: encryptedTo(keys.globex), signature: signedBy(loop.acme.keys) }
  t.match(await companies.receiptOf(await companies.send(byOld), [keys.globex]), {
    disposition: { modifier: { text: /authentication-failed|decryption-failed/ } },
  })
  await companies.profile('acme', { previous_partner_signing_certificate_id: old.acme })
  t.match(await companies.receiptOf(await companies.send(byOld), [keys.globex]), {
    disposition: { type: 'processed', modifier: null },
  })
})
