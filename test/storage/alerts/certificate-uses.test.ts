import t from 'tap'
import { raiseCertificateAlerts } from '../../../storage/alerts/alert-round.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { LOCAL_CERTIFICATE_FIELDS } from '../../../storage/profiles/local-profile.ts'
import { REMOTE_CERTIFICATE_FIELDS } from '../../../storage/profiles/remote-profile.ts'
import {
  certificate,
  DAY_HOURS,
  endsIn,
  keysOf,
  NODE,
  organizationProfile,
  partnerProfiles,
  site,
  usedBy,
} from './certificate-fixture.ts'
import { alertsOf } from './fixture.ts'

/** Which certificates are in use, and how their alerts name what uses them. */

t.setTimeout(300_000)

t.test('one that nobody uses, any more or yet, is not told', async (t) => {
  const pool = await site(t)
  const id = await certificate(pool, DAY_HOURS / 2)
  t.equal(await raiseCertificateAlerts(pool, NODE), 0)
  await usedBy(pool, { tls_certificate_id: id })
  t.equal(await raiseCertificateAlerts(pool, NODE), 1)
  await query(
    pool,
    `update plugin_configuration set settings = '{"tls_certificate_id":null}' where name = 'receiver'`,
  )
  await endsIn(pool, id, -1)
  t.equal(await raiseCertificateAlerts(pool, NODE), 0)
})

t.test('one that a disabled instance names is told when that is enabled', async (t) => {
  const pool = await site(t)
  const id = await certificate(pool, 5 * DAY_HOURS)
  await usedBy(pool, { tls_certificate_id: id }, false)
  t.equal(await raiseCertificateAlerts(pool, NODE), 0)
  t.same(await alertsOf(pool), [])
  await query(pool, 'update plugin_configuration set enabled = true')
  t.equal(await raiseCertificateAlerts(pool, NODE), 1)
})

t.test('each place that names a certificate counts, a previous one as a warning', async (t) => {
  const pool = await site(t)
  const expected = new Map<string, string>()
  const named = async (fields: readonly string[]): Promise<Record<string, number>> => {
    const ids: Record<string, number> = {}
    for (const field of fields) {
      const id = await certificate(pool, 5 * DAY_HOURS, field)
      ids[field] = id
      expected.set(String(id), field.startsWith('previous_') ? 'warning' : 'critical')
    }
    return ids
  }
  await organizationProfile(pool, await named(LOCAL_CERTIFICATE_FIELDS))
  await partnerProfiles(pool, await named(REMOTE_CERTIFICATE_FIELDS))
  const { first, second } = await named(['first', 'second'])
  await usedBy(pool, { trusted_certificate_ids: [first, second], port: 3 })
  t.equal(await raiseCertificateAlerts(pool, NODE), expected.size)
  const alerts = await alertsOf(pool)
  t.same(new Map(alerts.map(({ subject_id, severity }) => [subject_id, severity])), expected)
  const detailsOf = (field: string) => alerts.find((alert) => alert.subject_name === field)?.details
  t.match(
    detailsOf('signing_certificate_id'),
    /Used by:\n {2}AS2 profile of the organization acme \(signing_certificate_id\)$/,
  )
  t.match(
    detailsOf('previous_partner_signing_certificate_id'),
    /Used by:\n {2}as the previous certificate of the AS2 profile of the partner globex \(previous_partner_signing_cert/,
  )
})

t.test('a previous one is a warning at each threshold and at its end, and says that it is one', async (t) => {
  const pool = await site(t)
  const id = await certificate(pool, 20 * DAY_HOURS)
  await organizationProfile(pool, { previous_decryption_certificate_id: id })
  for (const hours of [20 * DAY_HOURS, 10 * DAY_HOURS, 5 * DAY_HOURS, 5, -5]) {
    await endsIn(pool, id, hours)
    t.equal(await raiseCertificateAlerts(pool, NODE), 1)
  }
  for (const { severity, summary } of await alertsOf(pool)) {
    t.equal(severity, 'warning')
    t.match(summary, 'The certificate globex edi, kept as a previous one, ')
  }
  t.equal((await keysOf(pool)).at(-1), `certificate_expired/${id}`)
})

t.test('one that is previous here and in use there is in use', async (t) => {
  const pool = await site(t)
  const id = await certificate(pool, 5 * DAY_HOURS)
  await organizationProfile(pool, { signing_certificate_id: id, previous_decryption_certificate_id: id })
  t.equal(await raiseCertificateAlerts(pool, NODE), 1)
  const [alert] = await alertsOf(pool)
  t.match(alert, { severity: 'critical', summary: /^The certificate globex edi expires in 5 days/ })
  t.match(
    alert?.details.split('Used by:\n')[1],
    /^ {2}AS2 profile .* \(signing_certificate_id\)\n {2}as the previous certificate of the AS2 profile [^\n]*$/,
  )
})

t.test('of one that many use, five are named and the others counted', async (t) => {
  const pool = await site(t)
  const id = await certificate(pool, 5 * DAY_HOURS)
  const partners = Array.from({ length: 40 }, (_, at) => `partner-${at}`)
  await partnerProfiles(pool, { tls_ca_certificate_id: id }, partners)
  await raiseCertificateAlerts(pool, NODE)
  const [alert] = await alertsOf(pool)
  t.match(
    alert?.details,
    /Used by:\n( {2}AS2 profile of the partner partner-\d+ \(tls_ca_certificate_id\)\n){5} {2}and 35 more$/,
  )
})
