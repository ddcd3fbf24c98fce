import t from 'tap'
import { startApi } from '../support/api.ts'

t.test('/plugins/configs', async (t) => {
  const { client, database, records } = await startApi(t)
  await client.create('/organizations', { name: 'acme' })
  const create = (type: string, body: object) => client.post(`/plugins/configs?type=${type}`, body)

  t.test('without type it is MISSING_TYPE, with an unknown one INVALID_TYPE, in the path too', async (t) => {
    t.match((await client.post('/plugins/configs', { name: 'x' })).error, { code: 'MISSING_TYPE' })
    t.match((await client.post('/plugins/configs?type=', { name: 'x' })).error, { code: 'MISSING_TYPE' })
    t.match((await create('fax', { name: 'x' })).error, { code: 'INVALID_TYPE' })
    t.match((await client.get('/plugins/configs/fax/x')).error, { code: 'INVALID_TYPE' })
    t.match((await client.put('/plugins/configs/fax/x', {})).error, { code: 'INVALID_TYPE' })
    t.match((await client.delete('/plugins/configs/fax/x')).error, { code: 'INVALID_TYPE' })
  })

  t.test('each type starts from its defaults', async (t) => {
    const receiver = await create('as2-receiver', { name: 'as2-in' })
    t.equal(receiver.status, 201)
    t.match(receiver.data, {
      type: 'as2-receiver',
      enabled: true,
      host: '',
      port: 10_080,
      path: '/as2',
      tls_certificate_id: null,
      max_message_bytes: 1024 ** 3,
      public_url: '',
    })
    t.match((await create('as2-sender', { name: 'as2-out' })).data, {
      max_concurrent_deliveries: 5,
      connect_timeout_seconds: 30,
      response_timeout_seconds: 300,
      retry_max_attempts: 8,
      retry_initial_seconds: 30,
      retry_max_seconds: 3600,
    })
    const poller = { name: 'poll', base_directory: 'in', processed_directory: 'done', from: 'acme' }
    t.match((await create('file-poller', poller)).data, {
      ...poller,
      error_directory: '',
      path_pattern: '{to}/{filename}',
      file_pattern: '*.*',
      polling_interval: 5,
      settle_seconds: 2,
    })
    t.match((await create('file-writer', { name: 'write', base_directory: 'out' })).data, {
      path_pattern: '{to}/{filename}',
      on_conflict: 'rename',
      max_concurrent_deliveries: 1,
    })
    t.same((await client.get('/plugins/configs/file-poller/poll')).data['polling_interval'], 5)
  })

  t.test('required, limited and related settings are refused by their names', async (t) => {
    const keys = async (type: string, body: object) => {
      const answer = await create(type, body)
      t.equal(answer.status, 400)
      return Object.keys(answer.error?.details ?? {}).toSorted()
    }
    t.same(await keys('file-poller', {}), ['base_directory', 'name', 'processed_directory'])
    const poller = { name: 'p2', base_directory: 'in', processed_directory: 'done' }
    t.same(await keys('file-poller', poller), ['from'])
    t.same(await keys('file-poller', { ...poller, from: 'acme', path_pattern: '{filename}' }), [
      'path_pattern',
    ])
    t.same(await keys('file-poller', { ...poller, from: 'acme', path_pattern: '../{to}/{filename}' }), [
      'path_pattern',
    ])
    t.same(await keys('file-poller', { ...poller, from: 'acme', path_pattern: '{who}/{to}/{filename}' }), [
      'path_pattern',
    ])
    const from = await create('file-poller', { ...poller, path_pattern: '{from}/{to}/{filename}' })
    t.equal(from.status, 201)
    t.same(await keys('file-writer', { name: 'w', base_directory: 'x', max_concurrent_deliveries: 101 }), [
      'max_concurrent_deliveries',
    ])
    t.same(await keys('file-writer', { name: 'w', base_directory: 'x', on_conflict: 'ask' }), ['on_conflict'])
    t.same(await keys('as2-receiver', { name: 'W', port: 70_000, path: 'as2', prot: 1 }), [
      'name',
      'path',
      'port',
      'prot',
    ])
    t.same(await keys('as2-receiver', { name: 'w', tls_certificate_id: 99 }), ['tls_certificate_id'])
  })

  t.test('a name is unique across all types', async (t) => {
    t.match((await create('as2-sender', { name: 'as2-out' })).error, { code: 'CONFLICT' })
    const other = await create('as2-receiver', { name: 'as2-out' })
    t.match(other.error, { code: 'INVALID_INPUT', details: { name: /as2-sender/ } })
    t.equal((await create('as2-receiver', { name: 'AS2-OUT' })).status, 400)
  })

  t.test('the path names the record: another name or type in the body is refused', async (t) => {
    const path = '/plugins/configs/file-writer/write'
    t.same(Object.keys((await client.put(path, { name: 'other' })).error?.details ?? {}), ['name'])
    t.same(Object.keys((await client.put(path, { type: 'as2-sender' })).error?.details ?? {}), ['type'])
    const { data } = await client.get(path)
    t.equal((await client.put(path, data)).status, 200)
    t.equal(
      (await client.get('/plugins/configs/file-writer/poll')).status,
      404,
      'an instance of another type',
    )
  })

  t.test('an update keeps what it leaves out', async (t) => {
    const answer = await client.put('/plugins/configs/file-writer/write', { on_conflict: 'fail' })
    t.match(answer.data, { on_conflict: 'fail', base_directory: 'out' })
  })

  t.test('write-only values', async (t) => {
    const secret = { http_basic_password: 'hunter2', http_headers: [{ name: 'X-Key', value: 'hunter2' }] }
    const path = '/plugins/configs/poster/post'

    t.test('are never returned, and are sealed at rest', async (t) => {
      const answer = await create('poster', { name: 'post', url: 'https://example.com/a', ...secret })
      t.equal(answer.status, 201)
      for (const { text } of [answer, await client.get(path), await client.put(path, {})]) {
        t.notMatch(text, /hunter2|http_headers|http_basic_password/)
      }
      const { rows } = await database.pool.query<{ row: string }>(
        `select c::text as row from plugin_configuration c`,
      )
      for (const { row } of rows) t.notMatch(row, /hunter2|X-Key/)
    })

    t.test('are kept by an update that leaves them out and opened for the instance', async (t) => {
      await client.put(path, { enabled: true })
      t.match(await records.plugins.instance('poster', 'post'), {
        settings: { url: 'https://example.com/a', ...secret },
      })
      await client.put(path, { http_headers: [] })
      t.match(await records.plugins.instance('poster', 'post'), {
        settings: { http_headers: [], http_basic_password: 'hunter2' },
      })
    })

    t.test('must be sent again when the url changes, each that has a value', async (t) => {
      const answer = await client.put(path, { url: 'https://evil.example/' })
      t.equal(answer.status, 400)
      t.same(Object.keys(answer.error?.details ?? {}), ['http_basic_password'])
      t.notMatch(answer.text, /hunter2/)
      t.equal((await client.put(path, { url: 'https://new.example/', http_basic_password: '' })).status, 200)
    })

    t.test('are not told by a refusal either', async (t) => {
      const answer = await client.put(path, {
        http_basic_password: 5,
        http_headers: [{ name: 'hunter2 x', value: 'hunter2\n' }],
      })
      t.equal(answer.status, 400)
      t.notMatch(answer.text, /hunter2/)
      t.same(Object.keys(answer.error?.details ?? {}).toSorted(), ['http_basic_password', 'http_headers'])
    })

    t.test('a URL that carries a credential is refused', async (t) => {
      for (const url of [
        'https://a:b@example.com/',
        'https://example.com/?TOKEN=x',
        'https://example.com/?a=1&Api_Key=2',
        'ftp://x',
        'x',
      ]) {
        t.same(
          Object.keys((await client.put(path, { url, http_basic_password: '' })).error?.details ?? {}),
          ['url'],
          url,
        )
      }
    })
  })

  t.test('the enabled instances are what the process starts with', async (t) => {
    await client.put('/plugins/configs/file-writer/write', { enabled: false })
    const names = (await records.plugins.enabled()).map(({ name }) => name)
    t.same(names, ['as2-in', 'as2-out', 'p2', 'poll', 'post'])
  })

  t.test('a deleted configuration is gone', async (t) => {
    t.equal((await client.delete('/plugins/configs/file-poller/poll')).status, 204)
    t.equal((await client.get('/plugins/configs/file-poller/poll')).status, 404)
  })

  t.test('there is no list of configurations', async (t) => {
    t.equal((await client.get('/plugins/configs')).status, 405)
  })
})
