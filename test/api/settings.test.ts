import { resolve } from 'node:path'
import t from 'tap'
import { startApi } from '../support/api.ts'

const DEFAULTS = {
  storage_backend: 'local',
  storage_local_directory: './payloads',
  storage_s3_bucket: '',
  storage_s3_region: '',
  storage_s3_endpoint: '',
  delivery_max_dispatches: 5,
  identification_hide_version: false,
}
const S3 = { storage_backend: 's3', storage_s3_bucket: 'acme-payloads', storage_s3_region: 'eu-central-1' }

t.test('GET /settings', async (t) => {
  const { client } = await startApi(t)

  t.test('a new installation has the defaults, and its storage is in use', async (t) => {
    const { status, data } = await client.get('/settings')
    t.equal(status, 200)
    const { updated_at, storage_in_use, restart_needed, ...values } = data
    t.same(values, DEFAULTS)
    t.match(updated_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const { delivery_max_dispatches: _, identification_hide_version: __, ...storage } = DEFAULTS
    t.same(storage_in_use, storage)
    t.equal(restart_needed, false)
  })

  t.test('there is one record: none is made and none is deleted', async (t) => {
    for (const answer of [await client.post('/settings', DEFAULTS), await client.delete('/settings')]) {
      t.equal(answer.status, 405)
      t.equal(answer.error?.code, 'METHOD_NOT_ALLOWED')
      t.equal(answer.headers.get('allow'), 'GET, HEAD, PUT')
    }
    t.equal((await client.get('/settings/1')).status, 404)
  })
})

t.test('PUT /settings', async (t) => {
  const { client } = await startApi(t)

  t.test('answers the stored record, and a property that is left out keeps its value', async (t) => {
    const changed = await client.put('/settings', { delivery_max_dispatches: 7 })
    t.equal(changed.status, 200)
    t.match(changed.data, { ...DEFAULTS, delivery_max_dispatches: 7 })
    const hidden = await client.put('/settings', { identification_hide_version: true })
    t.match(hidden.data, { delivery_max_dispatches: 7, identification_hide_version: true })
    t.same((await client.get('/settings')).data, hidden.data)
  })

  t.test('updated_at is when something changed', async (t) => {
    const before = (await client.get('/settings')).data['updated_at'] as string
    t.same((await client.put('/settings', {})).data['updated_at'], before)
    const { data } = await client.put('/settings', { delivery_max_dispatches: 8 })
    t.ok(Date.parse(data['updated_at'] as string) > Date.parse(before))
  })

  t.test('an answer can be edited and put: what is read only is ignored', async (t) => {
    const { data } = await client.get('/settings')
    const answer = await client.put('/settings', {
      ...data,
      delivery_max_dispatches: 9,
      updated_at: '2001-01-01T00:00:00.000Z',
      storage_in_use: { storage_backend: 's3' },
      restart_needed: true,
    })
    t.equal(answer.status, 200)
    t.match(answer.data, { delivery_max_dispatches: 9, restart_needed: false })
    t.same(answer.data['storage_in_use'], data['storage_in_use'])
    t.not(answer.data['updated_at'], '2001-01-01T00:00:00.000Z')
  })

  t.test('two changes at once are both kept', async (t) => {
    for (let round = 1; round <= 10; round++) {
      const region = `region-${round}`
      const answers = await Promise.all([
        client.put('/settings', { delivery_max_dispatches: round }),
        client.put('/settings', { storage_s3_region: region }),
      ])
      t.same(
        answers.map(({ status }) => status),
        [200, 200],
      )
      const { data } = await client.get('/settings')
      t.match(data, { delivery_max_dispatches: round, storage_s3_region: region })
    }
    await client.put('/settings', { storage_s3_region: '' })
  })

  t.test('a body that is no JSON object, or is missing, is refused', async (t) => {
    t.match((await client.put('/settings', [DEFAULTS])).error, { code: 'INVALID_INPUT' })
    t.match((await client.put('/settings', null)).error, { message: 'Invalid request body' })
    const text = await client.ask('PUT', '/settings', {
      raw: '{}',
      headers: { 'content-type': 'text/plain' },
    })
    t.equal(text.status, 415)
  })
})

t.test('4.3 validation of settings: the failure is on the property', async (t) => {
  const { client } = await startApi(t)
  const before = (await client.get('/settings')).data
  const refused = async (body: object): Promise<Record<string, unknown>> => {
    const { status, error } = await client.put('/settings', body)
    t.equal(status, 400, JSON.stringify(body).slice(0, 200))
    t.match(error, { code: 'INVALID_INPUT', message: 'Validation failed' })
    return error?.details ?? {}
  }

  t.test('an unknown property is refused by its name', async (t) => {
    t.same(await refused({ storage_directory: '/x' }), { storage_directory: 'unknown property' })
    t.same(Object.keys(await refused({ id: 1, only_record: true })), ['id', 'only_record'])
  })

  t.test('storage_backend is local or s3', async (t) => {
    t.same(await refused({ storage_backend: 'azure' }), { storage_backend: 'must be one of local, s3' })
    t.same(Object.keys(await refused({ storage_backend: null })), ['storage_backend'])
  })

  t.test('local storage needs a directory', async (t) => {
    for (const directory of ['', '   ', 'a\0b', 'd'.repeat(1001), 7, null]) {
      t.same(Object.keys(await refused({ storage_local_directory: directory })), ['storage_local_directory'])
    }
  })

  t.test('S3 storage needs a bucket and a region', async (t) => {
    t.same(await refused({ storage_backend: 's3' }), {
      storage_s3_bucket: 'is required for S3 storage',
      storage_s3_region: 'is required for S3 storage',
    })
    t.same(Object.keys(await refused({ ...S3, storage_s3_region: '' })), ['storage_s3_region'])
  })

  t.test('the name of a bucket follows the rules of S3', async (t) => {
    for (const name of [
      'ab',
      'a'.repeat(64),
      'Acme',
      'acme_payloads',
      '-acme',
      'acme-',
      '.acme',
      'a..b',
      '192.168.0.1',
      'acme/x',
      'ac me',
    ]) {
      t.same(Object.keys(await refused({ storage_s3_bucket: name })), ['storage_s3_bucket'], name)
    }
  })

  t.test('a region is one word', async (t) => {
    for (const region of ['eu central', 'eu/1', 'r'.repeat(65)]) {
      t.same(Object.keys(await refused({ storage_s3_region: region })), ['storage_s3_region'], region)
    }
  })

  t.test('the endpoint is an absolute http(s) URL without credentials', async (t) => {
    for (const endpoint of [
      's3.example.com',
      '/s3',
      'ftp://s3.example.com',
      'https://',
      'https://key:hunter2@s3.example.com',
      'https://key@s3.example.com',
      'https://s3.example.com/?token=hunter2',
      'https://s3.example.com/?a=b&API_KEY=hunter2',
      'https://s3.example.com/?Signature=hunter2',
      `https://s3.example.com/${'x'.repeat(2000)}`,
    ]) {
      const details = await refused({ storage_s3_endpoint: endpoint })
      t.same(Object.keys(details), ['storage_s3_endpoint'], endpoint)
      t.notMatch(JSON.stringify(details), /hunter2/)
    }
  })

  t.test('delivery_max_dispatches is a whole number from 1 to 20', async (t) => {
    for (const value of [0, 21, -1, 2.5, '5', true, null, 1e300]) {
      t.same(
        Object.keys(await refused({ delivery_max_dispatches: value })),
        ['delivery_max_dispatches'],
        String(value),
      )
    }
  })

  t.test('identification_hide_version is a boolean', async (t) => {
    for (const value of ['true', 1, null]) {
      t.same(await refused({ identification_hide_version: value }), {
        identification_hide_version: 'must be true or false',
      })
    }
  })

  t.test('all that is wrong is told at once', async (t) => {
    const details = await refused({
      storage_backend: 's3',
      storage_s3_endpoint: 'x',
      delivery_max_dispatches: '5',
      other: 1,
    })
    t.same(Object.keys(details).toSorted(), [
      'delivery_max_dispatches',
      'other',
      'storage_s3_bucket',
      'storage_s3_endpoint',
      'storage_s3_region',
    ])
  })

  t.test('a refused change changes nothing', async (t) => {
    t.same((await client.get('/settings')).data, before)
  })

  t.test('the limits themselves are accepted', async (t) => {
    for (const body of [
      { delivery_max_dispatches: 1 },
      { delivery_max_dispatches: 20 },
      { storage_local_directory: 'd'.repeat(1000) },
      { storage_s3_bucket: 'abc' },
      { storage_s3_bucket: `a.b-${'c'.repeat(59)}` },
      { storage_s3_endpoint: 'http://127.0.0.1:9000' },
      { storage_s3_endpoint: 'https://s3.example.com/tenant' },
      { storage_s3_endpoint: '' },
      S3,
    ]) {
      const answer = await client.put('/settings', body)
      t.equal(answer.status, 200, JSON.stringify(body).slice(0, 80))
      t.match(answer.data, body)
    }
    t.equal((await client.put('/settings', { storage_local_directory: '' })).status, 200, 'not used by S3')
    t.same(Object.keys(await refused({ storage_backend: 'local' })), ['storage_local_directory'])
  })
})

t.test('restart_needed is true while the saved storage is another one than that in use', async (t) => {
  const { client } = await startApi(t)
  const restartNeeded = async (body: object): Promise<unknown> => {
    const { status, data } = await client.put('/settings', body)
    t.equal(status, 200)
    t.match(data['storage_in_use'], { storage_backend: 'local', storage_local_directory: './payloads' })
    t.same((await client.get('/settings')).data['restart_needed'], data['restart_needed'])
    return data['restart_needed']
  }
  t.equal(await restartNeeded({ storage_local_directory: './elsewhere' }), true)
  for (const sameDirectory of ['payloads', './x/../payloads/', resolve('payloads')]) {
    t.equal(await restartNeeded({ storage_local_directory: sameDirectory }), false, sameDirectory)
  }
  t.equal(await restartNeeded({ storage_s3_bucket: 'other', storage_s3_region: 'eu-1' }), false, 'not in use')
  t.equal(await restartNeeded({ storage_backend: 's3' }), true)
  t.equal(await restartNeeded({ storage_backend: 'local' }), false)
  t.equal(
    await restartNeeded({ delivery_max_dispatches: 6, identification_hide_version: true }),
    false,
    'it speaks of the storage alone',
  )
})
