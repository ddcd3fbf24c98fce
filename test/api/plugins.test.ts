import t from 'tap'
import { startApi } from '../support/api.ts'

// On a busy machine many requests add up.
t.setTimeout(200_000)

t.test('/plugins/configs', async (t) => {
  const { client, records } = await startApi(t)
  await client.create('/organizations', { name: 'acme' })
  const create = (type: string, body: object) => client.post(`/plugins/configs?type=${type}`, body)

  t.test('without type it is MISSING_TYPE, with an unknown one INVALID_TYPE, in the path too', async (t) => {
    t.match((await client.post('/plugins/configs', { name: 'x' })).error, { code: 'MISSING_TYPE' })
    t.match((await client.post('/plugins/configs?type=', { name: 'x' })).error, { code: 'MISSING_TYPE' })
    for (const type of ['fax', 'FILE-WRITER', 'file', '__proto__']) {
      t.match((await create(type, { name: 'x' })).error, { code: 'INVALID_TYPE' }, type)
      t.match((await client.get(`/plugins/configs/${type}/x`)).error, { code: 'INVALID_TYPE' })
      t.match((await client.put(`/plugins/configs/${type}/x`, {})).error, { code: 'INVALID_TYPE' })
      t.match((await client.delete(`/plugins/configs/${type}/x`)).error, { code: 'INVALID_TYPE' })
    }
    const { status, error } = await create('fax', { name: 'x' })
    t.equal(status, 400)
    t.match(error?.message, /as2-receiver.*notification-webhook/, 'it says which there are')
  })

  t.test('each type answers 201 with its defaults filled in', async (t) => {
    const retry = { retry_max_attempts: 8, retry_initial_seconds: 30, retry_max_seconds: 3600 }
    const timeouts = { connect_timeout_seconds: 30, response_timeout_seconds: 300 }
    const directories = { base_directory: 'in', processed_directory: 'done' }
    const cases: readonly (readonly [string, object, object])[] = [
      [
        'as2-receiver',
        {},
        {
          host: '',
          port: 10_080,
          path: '/as2',
          tls_certificate_id: null,
          tls_client_certificate: 'none',
          tls_client_ca_certificate_ids: [],
          max_message_bytes: 1024 ** 3,
          public_url: '',
          receipt_hosts: [],
        },
      ],
      ['as2-sender', {}, { max_concurrent_deliveries: 5, ...timeouts, ...retry }],
      [
        'file-poller',
        { ...directories, from: 'acme' },
        {
          error_directory: '',
          path_pattern: '{to}/{filename}',
          file_pattern: '*.*',
          polling_interval: 5,
          settle_seconds: 2,
        },
      ],
      [
        'file-writer',
        { base_directory: 'out' },
        { path_pattern: '{to}/{filename}', on_conflict: 'rename', max_concurrent_deliveries: 1, ...retry },
      ],
      [
        'http-poster',
        { url: 'https://example.com/in' },
        {
          method: 'POST',
          http_basic_username: '',
          content_type: '',
          refused_networks: [],
          max_concurrent_deliveries: 5,
          ...timeouts,
          ...retry,
        },
      ],
      [
        'notification-webhook',
        { url: 'https://example.com/hook' },
        {
          format: 'generic',
          basic_username: '',
          min_severity: 'warning',
          codes: [],
          cooldown_minutes: 15,
          group_seconds: 0,
          ...retry,
        },
      ],
    ]
    for (const [type, given, defaults] of cases) {
      const body = { name: `default-${type}`, ...given }
      const { status, data } = await create(type, body)
      t.equal(status, 201, type)
      const { created_at, updated_at, ...rest } = data
      const { url: _, ...shown } = { url: '', ...body }
      const expected = type === 'http-poster' ? body : shown
      t.same(rest, { type, enabled: true, ...expected, ...defaults }, 'exactly its properties')
      t.match([created_at, updated_at], [/^\d{4}-.*Z$/, /^\d{4}-.*Z$/])
      t.same((await client.get(`/plugins/configs/${type}/default-${type}`)).data, data)
    }
  })

  t.test('a name has 1 to 64 lower case letters, digits, _ and -', async (t) => {
    for (const name of ['a', 'x'.repeat(64), '0_-z']) {
      t.equal((await create('as2-sender', { name })).status, 201, name)
      t.equal((await client.delete(`/plugins/configs/as2-sender/${name}`)).status, 204)
    }
    for (const name of ['', 'x'.repeat(65), 'Upper', 'with space', 'a/b', 'ä', 'a.b', 5, null, undefined]) {
      const { status, error } = await create('as2-sender', { name })
      t.equal(status, 400, String(name))
      t.same(Object.keys(error?.details ?? {}), ['name'])
    }
  })

  t.test('a name that an instance of the same type holds is 409 CONFLICT', async (t) => {
    await create('as2-sender', { name: 'taken', enabled: false })
    const { status, error } = await create('as2-sender', { name: 'taken' })
    t.equal(status, 409)
    t.match(error, { code: 'CONFLICT', message: /taken/ })
  })

  t.test(
    'a name that an instance of another type holds, enabled or not, is refused by that type',
    async (t) => {
      const { status, error } = await create('file-writer', { name: 'taken' })
      t.equal(status, 400)
      t.same(
        Object.keys(error?.details ?? {}).toSorted(),
        ['base_directory', 'name'],
        'with all else that is wrong',
      )
      t.match(error, { code: 'INVALID_INPUT', details: { name: /as2-sender/ } })
      t.same(Object.keys((await create('as2-receiver', { name: 'TAKEN' })).error?.details ?? {}), ['name'])
    },
  )

  t.test('of many that ask for one name at the same moment one gets it', async (t) => {
    const types = ['as2-sender', 'as2-receiver', 'as2-sender', 'as2-receiver', 'as2-sender', 'as2-receiver']
    const answers = await Promise.all(types.map((type) => create(type, { name: 'contested' })))
    const winner = types[answers.findIndex(({ status }) => status === 201)]
    for (const [index, { status, error }] of answers.entries()) {
      if (status === 201) continue
      if (types[index] === winner) t.match([status, error?.code], [409, 'CONFLICT'])
      else t.match([status, error?.details], [400, { name: new RegExp(winner ?? 'nobody') }])
    }
    t.equal(answers.filter(({ status }) => status === 201).length, 1)
  })

  t.test('an unknown property is refused, what only answers have is ignored', async (t) => {
    const answers = { type: 'file-poller', created_at: 'x', updated_at: 5 }
    const created = await create('as2-sender', { name: 'ignoring', ...answers })
    t.match(created.data, { type: 'as2-sender', created_at: /Z$/ })
    const refused = await create('as2-sender', { name: 'strict', retry_max: 5, http_headers: [] })
    t.same(refused.error?.details, { retry_max: 'unknown property', http_headers: 'unknown property' })
    const path = '/plugins/configs/as2-sender/ignoring'
    t.equal((await client.put(path, { created_at: 'x', updated_at: null })).status, 200)
    t.same((await client.put(path, { port: 1 })).error?.details, { port: 'unknown property' })
  })

  t.test('the path names the record: another name or type in the body is refused', async (t) => {
    const path = '/plugins/configs/file-writer/default-file-writer'
    t.same(Object.keys((await client.put(path, { name: 'other' })).error?.details ?? {}), ['name'])
    t.same(Object.keys((await client.put(path, { type: 'as2-sender' })).error?.details ?? {}), ['type'])
    const { data } = await client.get(path)
    const { status, data: saved } = await client.put(path, data)
    t.equal(status, 200)
    t.same(saved, { ...data, updated_at: saved['updated_at'] })
    t.equal((await client.get('/plugins/configs/file-writer/default-file-poller')).status, 404)
    t.equal((await client.put('/plugins/configs/file-writer/nobody', { name: 'x', what: 1 })).status, 404)
    t.equal((await client.delete('/plugins/configs/file-writer/nobody')).status, 404)
  })

  t.test('an update keeps what it leaves out and is validated as a whole', async (t) => {
    const path = '/plugins/configs/file-writer/default-file-writer'
    t.match((await client.put(path, { on_conflict: 'fail', retry_initial_seconds: 3600 })).data, {
      on_conflict: 'fail',
      base_directory: 'out',
      retry_initial_seconds: 3600,
    })
    const { error } = await client.put(path, { retry_max_seconds: 3599 })
    t.same(Object.keys(error?.details ?? {}), ['retry_max_seconds'])
    t.match((await client.get(path)).data, { retry_max_seconds: 3600 })
  })

  t.test('the enabled instances are what the process starts with', async (t) => {
    await client.put('/plugins/configs/file-writer/default-file-writer', { enabled: false })
    const names = (await records.plugins.enabled()).map(({ name }) => name)
    t.ok(names.includes('default-file-poller'))
    t.notOk(names.includes('default-file-writer'))
    t.same(names, names.toSorted())
  })

  t.test('a configuration that routes name cannot be deleted: 409 with the users', async (t) => {
    const poller = 'default-file-poller'
    for (const target_plugin of ['default-http-poster', 'default-as2-sender']) {
      await client.create('/routes', { source_plugin: poller, target_plugin })
    }
    const { status, error } = await client.delete(`/plugins/configs/file-poller/${poller}`)
    t.equal(status, 409)
    t.match(error, {
      code: 'CONFLICT',
      message: /default-file-poller/,
      details: {
        total: 2,
        users: [
          { kind: 'route', fields: ['source_plugin'], link: /^\/routes\/\d+$/ },
          { kind: 'route', fields: ['source_plugin'] },
        ],
      },
    })
    const target = await client.delete('/plugins/configs/http-poster/default-http-poster')
    t.match(target.error?.details, { total: 1, users: [{ fields: ['target_plugin'] }] })
    t.equal((await client.get(`/plugins/configs/file-poller/${poller}`)).status, 200)
  })

  t.test('a deleted configuration is gone, and its name is free for another type', async (t) => {
    t.equal((await client.delete('/plugins/configs/as2-sender/taken')).status, 204)
    t.equal((await client.get('/plugins/configs/as2-sender/taken')).status, 404)
    t.equal((await client.delete('/plugins/configs/as2-sender/taken')).status, 404)
    t.equal((await create('as2-receiver', { name: 'taken' })).status, 201)
  })

  t.test('there is no list of configurations', async (t) => {
    t.equal((await client.get('/plugins/configs')).status, 405)
  })
})

t.test('a running instance', async (t) => {
  const { client } = await startApi(t)
  const listed = async () =>
    ((await client.get('/services')).data['services'] as { name: string; pid_thread: number }[]).find(
      ({ name }) => name === 'out',
    )
  await client.create('/plugins/configs?type=file-writer', { name: 'out', base_directory: t.testdirName })
  await client.post('/services/file-writer/out/start')

  t.test('is not restarted by a change of its configuration', async (t) => {
    const before = await listed()
    t.match(before, { status: 'running', restarts: 0 })
    t.equal((await client.put('/plugins/configs/file-writer/out', { on_conflict: 'fail' })).status, 200)
    t.same(await listed(), before)
  })

  t.test('is stopped when its configuration is deleted', async (t) => {
    t.equal((await client.delete('/plugins/configs/file-writer/out')).status, 204)
    t.equal(await listed(), undefined)
  })
})
