import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { StorageTest } from '../../../storage/payloads/storage-test.ts'
import { ManualClock } from '../../runtime/manual-clock.ts'
import { startApi } from '../../support/api.ts'
import { makeCertificate } from '../../support/certificates.ts'
import { storeMessages } from '../../support/stored-messages.ts'

/** Specification 8: each limit at its border. */

const LOCAL = {
  storage_backend: 'local',
  storage_s3_bucket: '',
  storage_s3_region: '',
  storage_s3_endpoint: '',
} as const
const MIB = 1024 * 1024
const JSON_TYPE = { 'content-type': 'application/json' }

t.test('8 Limits', async (t) => {
  const { client, database } = await startApi(t)
  await client.create('/organizations', { name: 'acme' })
  const globex = (await client.create('/partners', { name: 'globex' }))['id']
  const refusedOn = async (asking: ReturnType<typeof client.post>, name: string, what: string) => {
    const { status, error } = await asking
    t.same([status, Object.keys(error?.details ?? {})], [400, [name]], what)
  }

  t.test('8 Request body: 1 MiB', async (t) => {
    const bodyOf = (bytes: number) => `{"name":"${'a'.repeat(bytes - 11)}"}`
    for (const [bytes, status] of [
      [MIB, 400],
      [MIB + 1, 413],
    ] as const) {
      const answer = await client.ask('POST', '/organizations', { raw: bodyOf(bytes), headers: JSON_TYPE })
      t.equal(answer.status, status, `${bytes} bytes`)
    }
  })

  t.test('8 Certificate upload: 20 MiB', async (t) => {
    const upload = (bytes: number) =>
      client.ask('POST', '/certificates', { parts: { certificate: Buffer.alloc(bytes, 'x') } })
    t.match(
      await upload(20 * MIB),
      { status: 400, error: { code: 'INVALID_INPUT' } },
      'it is read, and is no certificate',
    )
    t.match(await upload(20 * MIB + 1), { status: 413, error: { code: 'PAYLOAD_TOO_LARGE' } })
  })

  t.test('8 File sent by hand: 64 MiB', async (t) => {
    await client.create('/plugins/configs?type=file-writer', { name: 'writer', base_directory: 'out' })
    const send = (bytes: number) =>
      client.ask('POST', '/messages', {
        parts: { from: 'acme', to: 'globex', target: 'writer', file: Buffer.alloc(bytes, 'x') },
      })
    t.match(await send(64 * MIB), { status: 201, data: { size_bytes: 64 * MIB } })
    t.match(await send(64 * MIB + 1), { status: 413, error: { code: 'PAYLOAD_TOO_LARGE' } })
  })

  t.test('8 limit: default 20; 50 for messages; at most 500 (larger treated as 500)', async (t) => {
    await database.pool.query(`insert into partner (name) select 'p' || n from generate_series(1, 600) n`)
    const page = async (path: string) => (await client.get(path)).data
    t.match(await page('/partners'), { limit: 20, partners: { length: 20 } })
    t.match(await page('/partners?limit=500'), { limit: 500, partners: { length: 500 } })
    t.match(await page('/partners?limit=501'), { limit: 500, partners: { length: 500 } })
    t.match(await page('/messages'), { limit: 50 })
  })

  t.test('8 offset: default 0', async (t) => {
    t.match((await client.get('/partners')).data, { offset: 0 })
  })

  t.test('8 name: 1 to 64 characters of organizations and partners', async (t) => {
    for (const path of ['/organizations', '/partners']) {
      await refusedOn(client.post(path, { name: '' }), 'name', 'no character')
      await refusedOn(client.post(path, { name: 'a'.repeat(65) }), 'name', '65 characters')
      for (const name of ['a', 'a'.repeat(64)]) t.equal((await client.post(path, { name })).status, 201, name)
    }
  })

  t.test('8 receipt_timeout_hours: 1 to 720, default 24', async (t) => {
    const plain = { encryption_algorithm: 'None', receipt_signed: false }
    const profile = { as2id: 'GLOBEX', endpoint: 'http://globex.example/as2', ...plain }
    const created = await client.create('/as2/remote-profiles', { ...profile, business_partner_id: globex })
    t.equal(created['receipt_timeout_hours'], 24)
    const put = (hours: number) =>
      client.put(`/as2/remote-profiles/${String(globex)}`, { receipt_timeout_hours: hours })
    for (const hours of [0, 721, 1.5]) await refusedOn(put(hours), 'receipt_timeout_hours', String(hours))
    for (const hours of [1, 720]) t.equal((await put(hours)).status, 200)
  })

  t.test('8 max_concurrent_deliveries: 1 to 100; default 1 (file-writer), 5 (http-poster)', async (t) => {
    for (const [type, body, preset] of [
      ['file-writer', { name: 'limit-writer', base_directory: 'out' }, 1],
      ['http-poster', { name: 'limit-poster', url: 'http://globex.example/' }, 5],
      ['as2-sender', { name: 'limit-sender' }, 5],
    ] as const) {
      const created = await client.create(`/plugins/configs?type=${type}`, body)
      t.equal(created['max_concurrent_deliveries'], preset, type)
      const put = (value: number) =>
        client.put(`/plugins/configs/${type}/${body.name}`, { max_concurrent_deliveries: value })
      for (const value of [0, 101])
        await refusedOn(put(value), 'max_concurrent_deliveries', `${type} ${value}`)
      for (const value of [1, 100]) t.equal((await put(value)).status, 200, `${type} ${value}`)
    }
  })

  t.test('8 delivery_max_dispatches: 1 to 20, default 5', async (t) => {
    t.equal((await client.get('/settings')).data['delivery_max_dispatches'], 5)
    const put = (value: number) => client.put('/settings', { delivery_max_dispatches: value })
    for (const value of [0, 21]) await refusedOn(put(value), 'delivery_max_dispatches', String(value))
    for (const value of [1, 20]) t.equal((await put(value)).status, 200)
  })

  t.test(
    '8 certificate fingerprint prefix in q: at least 4 hex digits; expiring window: 30 days',
    async (t) => {
      // No text of a certificate with this name has four hexadecimal digits in a row.
      const { certificatePem } = makeCertificate({ commonName: 'zzz' })
      const parts = { certificate: certificatePem, description: 'zzz' }
      const stored = (await client.ask('POST', '/certificates', { parts })).data
      const print = String(stored['fingerprint_sha256'])
      const found = async (q: string) => (await client.get(`/certificates?q=${q}`)).data['total']
      t.equal(await found(print.slice(0, 4)), 1)
      t.equal(await found(print.slice(0, 4).toUpperCase()), 1)
      t.equal(await found(print), 1)
      t.equal(await found(print.slice(1, 12)), 0, 'the start of the fingerprint alone')
      const { data } = await client.get('/certificates/expiring')
      const endsSoon = Number(stored['days_remaining']) <= 30
      t.equal(data['total'], endsSoon ? 1 : 0)
      t.equal(
        (await client.get(`/certificates/expiring?days=${Number(stored['days_remaining']) + 1}`)).data[
          'total'
        ],
        1,
      )
    },
  )

  t.test(
    '8 details.users: at most 25 entries of CERTIFICATE_IN_USE, and details.total counts all',
    async (t) => {
      const { certificatePem, privateKeyPem } = makeCertificate({ commonName: 'shared' })
      const parts = { certificate: certificatePem, private_key: privateKeyPem, description: 'Shared' }
      const { id } = (await client.ask('POST', '/certificates', { parts })).data
      for (let index = 0; index < 26; index += 1) {
        const owner = await client.create('/organizations', { name: `owner-${index}` })
        const profile = { local_organization_id: owner['id'], as2id: `OWNER-${index}` }
        await client.create('/as2/local-profiles', { ...profile, signing_certificate_id: id })
      }
      const answer = await client.delete(`/certificates/${String(id)}`)
      t.match(answer, { status: 409, error: { code: 'CERTIFICATE_IN_USE' } })
      t.match(answer.error?.details, { users: { length: 25 } })
      t.equal(answer.error?.details?.['total'], 26)
    },
  )

  t.test('8 Degraded threshold: more than 10 failed messages in 24 hours', async (t) => {
    const status = async () => (await client.get('/stats')).data['system_status']
    t.equal(await status(), 'Healthy')
    await failed(10)
    t.equal(await status(), 'Healthy', 'ten')
    await failed(1)
    t.equal(await status(), 'Degraded', 'eleven')
  })

  t.test('8 import_token lifetime: 10 minutes', async (t) => {
    const { certificatePem } = makeCertificate({ commonName: 'undescribed' })
    const before = Date.now()
    const answer = await client.ask('POST', '/certificates', { parts: { certificate: certificatePem } })
    t.equal(answer.status, 200, 'without a description nothing is imported')
    const endsAt = new Date(String(answer.data['expires_at'])).getTime()
    t.ok(endsAt >= before + 600_000 - 1 && endsAt <= Date.now() + 600_000, 'ten minutes from now')
    await database.pool.query(`update certificate_import set expires_at = now() - interval '1 second'`)
    const body = {
      import_token: answer.data['import_token'],
      certificates: [{ index: 0, description: 'late' }],
    }
    await refusedOn(client.post('/certificates/import', body), 'import_token', 'afterwards')
  })

  t.test(
    '8 Stall waits: grow from 10 seconds to 10 minutes; about 23 minutes in total at the default',
    async (t) => {
      const { rows } = await database.pool.query<{ wait: number }>(
        'select extract(epoch from announcement_wait(n))::int as wait from generate_series(1, 5) n order by n',
      )
      const waits = rows.map(({ wait }) => wait)
      t.same(waits, [10, 40, 160, 600, 600])
      t.equal(Math.floor(waits.reduce((sum, wait) => sum + wait, 0) / 60), 23)
    },
  )

  t.test('8 storage test: at most 10 seconds', async (t) => {
    const clock = new ManualClock()
    const program = new URL('../../storage/settings/hanging-probe.ts', import.meta.url)
    const directory = t.testdir()
    const running = new StorageTest({ clock, program }).run({ ...LOCAL, storage_local_directory: directory })
    clock.advance(10_000)
    t.match(await running, { ok: false, problem: /did not answer/ })
    // The process that hangs ends by it.
    writeFileSync(join(directory, 'back'), '')
  })

  async function failed(count: number): Promise<void> {
    const ids = await storeMessages(database.pool, { count, status: 'Error' })
    await database.pool.query(
      `insert into history (message_id, kind, old_status, new_status)
       select id, 'status_changed', 'InProgress', 'Error' from unnest($1::uuid[]) as given (id)`,
      [ids],
    )
  }
})
