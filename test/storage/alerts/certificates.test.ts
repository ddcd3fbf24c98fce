import t from 'tap'
import { raiseCertificateAlerts } from '../../../storage/alerts/alert-round.ts'
import { openPool, query } from '../../../storage/postgres/pool.ts'
import {
  certificate,
  DAY_HOURS,
  endsIn,
  keysOf,
  NODE,
  partnerProfiles,
  site,
  siteWithoutNotifier,
  usedBy,
} from './certificate-fixture.ts'
import { alertsOf, notifier, rowsOf } from './fixture.ts'

/** When certificates in use that end are told, and to whom. */

t.setTimeout(300_000)

t.test(
  '30, 14, 7 and 1 days before its end and at the end, a certificate in use is told once each',
  async (t) => {
    const pool = await site(t)
    const id = await certificate(pool, 31 * DAY_HOURS)
    await usedBy(pool, { tls_certificate_id: id })
    t.equal(await raiseCertificateAlerts(pool, NODE), 0)
    const expected: string[] = []
    for (const [hours, days, severity, said] of [
      [30 * DAY_HOURS - 1, 30, 'warning', 'expires in 30 days'],
      [14 * DAY_HOURS - 1, 14, 'warning', 'expires in 14 days'],
      [7 * DAY_HOURS - 1, 7, 'critical', 'expires in 7 days'],
      [1 * DAY_HOURS - 1, 1, 'critical', 'expires in 23 hours'],
      [-1, 0, 'critical', 'has expired'],
    ] as const) {
      await endsIn(pool, id, hours)
      t.equal(await raiseCertificateAlerts(pool, NODE), 1, `${days} days`)
      for (const _ of ['a minute later', 'after a restart'])
        t.equal(await raiseCertificateAlerts(pool, NODE), 0)
      expected.push(days === 0 ? `certificate_expired/${id}` : `certificate_expiring/${id}/${days}`)
      t.same(await keysOf(pool), expected)
      const alert = (await alertsOf(pool)).at(-1)
      t.match(alert, {
        severity,
        code: days === 0 ? 'certificate_expired' : 'certificate_expiring',
        subject_kind: 'certificate',
        subject_id: String(id),
        subject_name: 'globex edi',
        link_path: `/api/v1/certificates/${id}`,
      })
      t.ok(alert?.summary.startsWith(`The certificate globex edi ${said} (20`), alert?.summary ?? '')
      t.match(
        alert?.details,
        /Used by:\n {2}plugin instance receiver \(as2-receiver\) \(tls_certificate_id\)$/,
      )
    }
    t.equal((await rowsOf(pool)).length, 5)
  },
)

t.test('below a day it tells hours', async (t) => {
  const pool = await site(t)
  const ids = [await certificate(pool, 0.5), await certificate(pool, 2), await certificate(pool, 23.5)]
  await usedBy(pool, { tls_client_ca_certificate_ids: ids })
  t.equal(await raiseCertificateAlerts(pool, NODE), 3)
  t.same(
    (await alertsOf(pool)).map(({ summary }) => / expires in (.*) \(/.exec(summary)?.[1]),
    ['less than an hour', '2 hours', '24 hours'],
    'the most urgent first',
  )
})

t.test('of the thresholds that are passed only the tightest is told, and no looser one later', async (t) => {
  const pool = await site(t)
  const id = await certificate(pool, 3 * DAY_HOURS)
  await usedBy(pool, { tls_certificate_id: id })
  t.equal(await raiseCertificateAlerts(pool, NODE), 1)
  // As when clocks differ a little.
  await endsIn(pool, id, 7.5 * DAY_HOURS)
  t.equal(await raiseCertificateAlerts(pool, NODE), 0)
  await endsIn(pool, id, 6 * DAY_HOURS)
  t.equal(await raiseCertificateAlerts(pool, NODE), 0)
  t.same(await keysOf(pool), [`certificate_expiring/${id}/7`])
})

t.test('a clock that went years ahead and came back takes no later alert away', async (t) => {
  const pool = await site(t)
  const id = await certificate(pool, 10 * DAY_HOURS)
  await usedBy(pool, { tls_certificate_id: id })
  for (const [hours, raised] of [
    [10 * DAY_HOURS, 1],
    [-2_990 * DAY_HOURS, 1],
    [10 * DAY_HOURS, 0],
    [7 * DAY_HOURS - 1, 1],
    [1 * DAY_HOURS - 1, 1],
    [-1, 1],
  ] as const) {
    await endsIn(pool, id, hours)
    t.equal(await raiseCertificateAlerts(pool, NODE), raised, `${hours} hours before its end`)
  }
  t.same(await keysOf(pool), [
    `certificate_expiring/${id}/14`,
    `certificate_expired/${id}`,
    `certificate_expiring/${id}/7`,
    `certificate_expiring/${id}/1`,
    `certificate_expired/${id}`,
  ])
})

t.test('it waits for a notifier that takes it, and is told then', async (t) => {
  const { pool } = await siteWithoutNotifier(t)
  const id = await certificate(pool, 10 * DAY_HOURS)
  await usedBy(pool, { tls_certificate_id: id })
  await notifier(pool, 'disabled', {}, false)
  await notifier(pool, 'others', { codes: ['plugin_failed'] })
  await notifier(pool, 'critical', { min_severity: 'critical' })
  t.equal(await raiseCertificateAlerts(pool, NODE), 0)
  t.same(await alertsOf(pool), [])
  await notifier(pool, 'hook', { codes: ['certificate_expiring'] })
  t.equal(await raiseCertificateAlerts(pool, NODE), 1)
  t.equal(await raiseCertificateAlerts(pool, NODE), 0)
  t.same(await keysOf(pool), [`certificate_expiring/${id}/14`])
  t.match(await rowsOf(pool), [{ outcome: 'queued' }])
  await endsIn(pool, id, 5 * DAY_HOURS)
  t.equal(await raiseCertificateAlerts(pool, NODE), 1)
  t.match(await rowsOf(pool, 'critical'), [{ key: `certificate_expiring/${id}/7` }])
})

t.test('many that end at once, among many profiles, are all told', async (t) => {
  const { pool, url, log } = await siteWithoutNotifier(t)
  await notifier(pool, 'hook')
  const partners = Array.from({ length: 1_200 }, (_, at) => `partner-${at}`)
  await partnerProfiles(pool, { tls_ca_certificate_id: await certificate(pool, 20 * DAY_HOURS) }, partners)
  const ids: number[] = []
  for (let at = 0; at < 500; at += 1) ids.push(await certificate(pool, 20 * DAY_HOURS))
  await query(
    pool,
    `update as2_remote_profile r set partner_certificate_id = c.id
     from unnest($1::integer[]) with ordinality c (id, nth) where r.as2id = 'PARTNER-' || c.nth`,
    [ids],
  )
  // Statements may take as long as those of the service, and no longer.
  const served = openPool({ url, size: 1, applicationName: 'test', log })
  t.teardown(() => served.end())
  t.equal(await raiseCertificateAlerts(served, NODE), 501)
  t.equal(await raiseCertificateAlerts(served, NODE), 0)
  const told = new Set((await alertsOf(pool)).map(({ subject_id }) => subject_id))
  t.equal(told.size, 501)
  t.equal((await rowsOf(pool)).length, 501)
})

t.test('the node that holds the clock tells, and two that think they do tell once', async (t) => {
  const pool = await site(t)
  const id = await certificate(pool, 5 * DAY_HOURS)
  await usedBy(pool, { tls_certificate_id: id })
  t.equal(await raiseCertificateAlerts(pool, 'node-2'), null)
  const raised = await Promise.all(Array.from({ length: 6 }, () => raiseCertificateAlerts(pool, NODE)))
  t.same(
    raised.toSorted((a, b) => (a ?? 0) - (b ?? 0)),
    [0, 0, 0, 0, 0, 1],
  )
  t.same(await keysOf(pool), [`certificate_expiring/${id}/7`])
})
