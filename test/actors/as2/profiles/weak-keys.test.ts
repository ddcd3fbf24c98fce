import t from 'tap'
import { openLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent } from '../../../support/as2-correspondent.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import { until } from '../../../support/processes.ts'

t.setTimeout(300_000)

const { waybill, loop } = await openLoop(t)
const store = new As2Correspondent(waybill, loop)

void t.test(
  'weak RSA keys that profiles use are told as an instance starts, and by the check of a connection',
  async (t) => {
    const warnings = () => waybill.output.filter((line) => line.includes('RSA keys of less than 2048 bits'))
    t.same(warnings(), [], 'sound keys are not talked about')

    const unused = await store.store(makeCertificate({ commonName: 'unused', keyBits: 1024 }))
    const weak = await store.store(makeCertificate({ commonName: 'globex weak', keyBits: 1024 }))
    await store.profile('globex', { partner_certificate_id: weak })
    for (const instance of ['as2-sender/sender', 'as2-receiver/receiver']) {
      const before = warnings().length
      await waybill.request('POST', `/services/${instance}/restart`)
      await until(() => warnings().length > before)
    }
    t.ok(warnings().every((line) => line.includes(`globex weak (id ${weak}, 1024 bits)`)))
    t.notOk(warnings().some((line) => line.includes(`(id ${unused},`)))

    const path = `/as2/remote-profiles/${loop.globex.partner}/check-connection`
    const check = await waybill.request<{ ok: boolean; steps: { name: string; detail: string }[] }>(
      'POST',
      path,
      {},
    )
    t.equal(check.ok, true, 'it still works')
    const { detail } = check.steps.find(({ name }) => name === 'certificates') ?? {}
    t.match(detail, /globex weak until \d{4}-\d\d-\d\d, with an RSA key of only 1024 bits/)
  },
)

void t.test(
  'the check of a connection lets invalid certificates of the partner pass where its profile does',
  async (t) => {
    const expired = await store.store(makeCertificate({ commonName: 'globex expired', days: -10 }))
    const check = () =>
      waybill.request<{ ok: boolean; problem: string | null }>(
        'POST',
        `/as2/remote-profiles/${loop.globex.partner}/check-connection`,
        {},
      )
    await store.profile('globex', { partner_certificate_id: expired })
    t.match(await check(), { ok: false, problem: /globex expired .* expired on/ })
    await store.profile('globex', { accept_expired_certificates: true })
    t.match(await check(), { ok: true, problem: null })
  },
)
