import t from 'tap'
import { startApi } from '../support/api.ts'
import { storeCertificate } from '../support/as2-partner.ts'
import { auditEvents, eventsOf } from '../support/audit-events.ts'
import { makeCertificate } from '../support/certificates.ts'
import type { Answer } from '../support/client.ts'

/** An event is there exactly when its change is (specification, 2.15), whatever comes between. */

// On a busy machine many requests add up.
t.setTimeout(240_000)

t.test('a change that is refused leaves no event', async (t) => {
  const api = await startApi(t)
  const { client } = api
  const acme = Number((await client.create('/organizations', { name: 'acme' }))['id'])
  const certificate = makeCertificate({ commonName: 'acme edi' })
  const id = await storeCertificate(api, 'ours', certificate, true)
  const profile = { local_organization_id: acme, as2id: 'ACME', signing_certificate_id: id }
  await client.create('/as2/local-profiles', profile)
  const parts = { certificate: certificate.certificatePem, description: 'again' }
  const refused: readonly (readonly [number, string, () => Promise<Answer>])[] = [
    [409, 'a taken name', () => client.post('/organizations', { name: 'acme' })],
    [400, 'a name that cannot be', () => client.post('/organizations', { name: 'ACME' })],
    [404, 'no such record', () => client.put('/organizations/99', { display_name: 'x' })],
    [409, 'an organization in use', () => client.delete(`/organizations/${acme}`)],
    [409, 'a second profile', () => client.post('/as2/local-profiles', { ...profile, as2id: 'OTHER' })],
    [
      400,
      'no such certificate',
      () => client.put(`/as2/local-profiles/${acme}`, { signing_certificate_id: 9 }),
    ],
    [409, 'a stored certificate', () => client.ask('POST', '/certificates', { parts })],
    [409, 'a certificate in use', () => client.delete(`/certificates/${id}`)],
    [400, 'no such instance', () => client.post('/routes', { source_plugin: 'x', target_plugin: 'y' })],
    [400, 'a setting that cannot be', () => client.put('/settings', { delivery_max_dispatches: 0 })],
    [400, 'no such account', () => client.post('/api-tokens', { service_account: 'x', label: 'y' })],
    [404, 'no such token', () => client.delete('/api-tokens/9')],
  ]
  for (const [status, what, ask] of refused) {
    const events = await eventsOf(client, async () => t.equal((await ask()).status, status, what))
    t.same(events, [], what)
  }
})

t.test('of changes at once that exclude each other, the one that is made has the one event', async (t) => {
  const { client } = await startApi(t)
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => client.post('/partners', { name: 'globex' })),
  )
  t.equal(answers.filter(({ status }) => status === 201).length, 1)
  t.match(await auditEvents(client), [{ action: 'created', kind: 'partner', record_name: 'globex' }])
  const deletions = await Promise.all(Array.from({ length: 8 }, () => client.delete('/partners/1')))
  t.equal(deletions.filter(({ status }) => status === 204).length, 1)
  const actions = (await auditEvents(client)).map(({ action }) => action)
  t.same(actions, ['created', 'deleted'])
})

t.test('changes of all kinds side by side wait for each other in one order, chained', async (t) => {
  const { client } = await startApi(t, { auditKey: 'the audit key of this test' })
  const directory = t.testdir()
  let changes = 0
  const done = async (answer: Promise<Answer>): Promise<Answer> => {
    const { status, text } = await answer
    t.ok(status < 300, text)
    changes += 1
    return answer
  }
  const records = [1, 2, 3].flatMap((n) => {
    const provider = { issuer_url: `https://${n}.example`, sign_in: false, api_audience: 'x' }
    return [
      ['/organizations', { name: `party-${n}` }, { display_name: 'x' }],
      ['/service-accounts', { name: `account-${n}` }, { description: 'x' }],
      ['/oidc-providers', { name: `provider-${n}`, ...provider }, { display_name: 'x' }],
    ] as const
  })
  const workers = records.map(async ([path, body, change], n) => {
    for (let round = 0; round < 3; round += 1) {
      const { data } = await done(client.post(path, body))
      const record = `${path}/${String(data['id'])}`
      await done(client.put(record, change))
      await done(client.put('/settings', { delivery_max_dispatches: 1 + ((n + 9 * round) % 20) }))
      await done(client.delete(record))
    }
  })
  const instances = Array.from({ length: 3 }, async (_, n) => {
    const name = `files-${n}`
    await done(client.post('/plugins/configs?type=file-writer', { name, base_directory: directory }))
    await done(client.put(`/plugins/configs/file-writer/${name}`, { retry_max_attempts: 3 }))
    await done(client.delete(`/plugins/configs/file-writer/${name}`))
  })
  await Promise.all([...workers, ...instances])
  const verified = await client.post('/audit/verify')
  t.match(verified.data, { ok: true, unchained: 0 })
  const { chained } = verified.data as { chained: number }
  const events = (await auditEvents(client)).filter(({ kind }) => kind !== 'audit-log')
  t.equal(chained, events.length)
  const settings = events.filter(({ kind }) => kind === 'settings').length
  const others = events.length - settings
  t.equal(others, changes - 27, 'each change has its event')
  t.ok(settings > 0 && settings <= 27, 'and so has each of the settings that changed something')
})
