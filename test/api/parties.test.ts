import t from 'tap'
import { startApi } from '../support/api.ts'

for (const [path, plural] of [
  ['/organizations', 'organizations'],
  ['/partners', 'partners'],
] as const) {
  t.test(path, async (t) => {
    const { client } = await startApi(t)

    t.test('a record is created with the defaults of the form and answered as stored', async (t) => {
      const created = await client.post(path, { name: 'acme' })
      t.equal(created.status, 201)
      t.match(created.data, { id: Number, name: 'acme', display_name: '' })
      const read = await client.get(`${path}/${String(created.data['id'])}`)
      t.same(read.data, created.data)
    })

    t.test('a name has 1 to 64 characters: lower case letters, digits, _ and -', async (t) => {
      for (const name of ['', 'Acme', 'a b', 'ä', 'a.b', 'a'.repeat(65), 5, null, '*', 'a\n']) {
        const answer = await client.post(path, { name })
        t.equal(answer.status, 400, String(name))
        t.same(Object.keys(answer.error?.details ?? {}), ['name'])
      }
      t.match((await client.post(path, {})).error?.details, { name: 'is required' })
      t.equal((await client.post(path, { name: `a_-0${'z'.repeat(60)}` })).status, 201)
    })

    t.test('a name that exists is 409 CONFLICT, on create and on update', async (t) => {
      const twice = await client.post(path, { name: 'acme' })
      t.equal(twice.status, 409)
      t.equal(twice.error?.code, 'CONFLICT')
      const { id } = await client.create(path, { name: 'globex' })
      t.equal((await client.put(`${path}/${String(id)}`, { name: 'acme' })).error?.code, 'CONFLICT')
      const racing = await Promise.all(Array.from({ length: 5 }, () => client.post(path, { name: 'racing' })))
      t.same(
        racing.map(({ status }) => status).toSorted((a, b) => a - b),
        [201, 409, 409, 409, 409],
      )
    })

    t.test('an update changes what it sends and keeps the rest', async (t) => {
      const { id } = await client.create(path, { name: 'initech', display_name: 'Initech' })
      const answer = await client.put(`${path}/${String(id)}`, { name: 'initech-2' })
      t.equal(answer.status, 200)
      t.match(answer.data, { id, name: 'initech-2', display_name: 'Initech' })
      t.ok(String(answer.data['updated_at']) >= String(answer.data['created_at']))
    })

    t.test('a record that was read can be put back; another id in the body is refused on id', async (t) => {
      const created = await client.create(path, { name: 'umbrella' })
      const back = await client.put(`${path}/${String(created['id'])}`, created)
      t.equal(back.status, 200)
      const other = await client.put(`${path}/${String(created['id'])}`, { id: 999_999 })
      t.same(Object.keys(other.error?.details ?? {}), ['id'])
      const all = await client.put(`${path}/${String(created['id'])}`, { id: 999_999, name: 'X Y', bogus: 1 })
      t.same(Object.keys(all.error?.details ?? {}).toSorted(), ['bogus', 'id', 'name'], 'all is told at once')
    })

    t.test('a path id that is not a whole number is refused on id, an unknown one is 404', async (t) => {
      for (const id of ['x', '1.5', '-1', '0x1', '1e2', '%20']) {
        const answer = await client.get(`${path}/${id}`)
        t.equal(answer.status, 400, id)
        t.same(Object.keys(answer.error?.details ?? {}), ['id'])
      }
      for (const id of ['0', '999999', '2147483648', '99999999999999999999']) {
        const answer = await client.get(`${path}/${id}`)
        t.equal(answer.status, 404, id)
        t.match(answer.error?.message, /^(Organization|Partner) not found$/)
      }
    })

    t.test(
      'an update refuses a broken body first, then an unknown record, then what is invalid',
      async (t) => {
        const unknown = `${path}/999999`
        const headers = { 'content-type': 'application/json' }
        t.equal((await client.ask('PUT', unknown, { raw: '{', headers })).status, 400)
        t.equal((await client.put(unknown, { name: 'NOT VALID' })).status, 404)
        const { id } = await client.create(path, { name: 'order' })
        t.equal((await client.put(`${path}/${String(id)}`, { name: 'NOT VALID' })).status, 400)
      },
    )

    t.test('a delete answers 204 without a body, and 404 afterwards', async (t) => {
      const { id } = await client.create(path, { name: 'short-lived' })
      const answer = await client.delete(`${path}/${String(id)}`)
      t.equal(answer.status, 204)
      t.equal(answer.text, '')
      t.equal((await client.delete(`${path}/${String(id)}`)).status, 404)
    })

    t.test('q finds text in name or display name in any case, and takes no wildcards', async (t) => {
      await client.create(path, { name: 'find-me', display_name: 'Straße 100%' })
      const names = async (q: string) => {
        const { data } = await client.get(`${path}?q=${encodeURIComponent(q)}`)
        return (data[plural] as { name: string }[]).map(({ name }) => name)
      }
      t.same(await names('FIND-M'), ['find-me'])
      t.same(await names('straSSe'), [])
      t.same(await names('100%'), ['find-me'])
      t.same(await names('f%e'), [])
      t.ok((await names('')).length > 3, 'an empty q is no filter')
      await client.create(path, { name: 'umlaut', display_name: 'Müller_& Söhne \\ "Wien"' })
      for (const q of ['müller', 'MÜLLER', 'SÖHNE', 'r_&', ' \\ ', '"wien', 'UMLAU'])
        t.same(await names(q), ['umlaut'], q)
      for (const q of ['m_ller', 'r__', '%', '\\%', 'Muller']) t.notOk((await names(q)).includes('umlaut'), q)
    })
  })
}

t.test('a party that a poller names is neither deleted nor renamed', async (t) => {
  const { client } = await startApi(t)
  const { id } = await client.create('/organizations', { name: 'acme' })
  const path = `/organizations/${String(id)}`
  const directories = { base_directory: '/tmp/in', processed_directory: '/tmp/done' }
  await client.create('/plugins/configs?type=file-poller', { name: 'orders', from: 'acme', ...directories })
  for (const answer of [await client.delete(path), await client.put(path, { name: 'acme-2' })]) {
    t.equal(answer.status, 409)
    t.match(answer.error, {
      code: 'CONFLICT',
      message: /acme is used by plugin-configuration orders \(from\)/,
      details: {
        total: 1,
        users: [
          {
            kind: 'plugin-configuration',
            name: 'orders',
            fields: ['from'],
            link: '/plugins/configs/file-poller/orders',
          },
        ],
      },
    })
  }
  t.equal(
    (await client.put(path, { name: 'acme', display_name: 'Acme' })).status,
    200,
    'its own name is no other',
  )
  t.equal((await client.delete('/plugins/configs/file-poller/orders')).status, 204)
  t.equal((await client.put(path, { name: 'acme-2' })).status, 200)
  t.equal((await client.delete(path)).status, 204)
})

t.test('lists page all alike', async (t) => {
  const { client, database } = await startApi(t)
  await database.pool.query(
    `insert into organization (name) select 'o' || lpad(n::text, 4, '0') from generate_series(1, 600) n`,
  )
  const list = async (query: string) => (await client.get(`/organizations${query}`)).data

  t.test('limit is 20 and offset 0 by default', async (t) => {
    const page = await list('')
    t.match(page, { total: 600, limit: 20, offset: 0 })
    t.equal((page['organizations'] as unknown[]).length, 20)
  })
  t.test('a limit above 500 is treated as 500', async (t) => {
    const page = await list('?limit=100000')
    t.match(page, { total: 600, limit: 500 })
    t.equal((page['organizations'] as unknown[]).length, 500)
  })
  t.test('the offset skips, total counts what matches', async (t) => {
    const page = await list('?limit=2&offset=598&q=o0')
    t.match(page, {
      total: 600,
      limit: 2,
      offset: 598,
      organizations: [{ name: 'o0599' }, { name: 'o0600' }],
    })
    t.match(await list('?offset=10000'), { organizations: [], total: 600 })
  })
  t.test('a value that is not a whole number is 400 naming the parameter, on every list', async (t) => {
    for (const path of [
      '/organizations',
      '/partners',
      '/routes',
      '/certificates',
      '/certificates/expiring',
      '/as2/local-profiles',
      '/as2/remote-profiles',
      '/services',
      '/messages',
    ]) {
      for (const limit of ['0', '-1', 'x', '1.5', '', '%201', '0x5']) {
        const answer = await client.get(`${path}?limit=${limit}`)
        t.equal(answer.status, 400, `${path} ${limit}`)
        t.same(Object.keys(answer.error?.details ?? {}), ['limit'])
      }
      const both = await client.get(`${path}?limit=a&offset=-1`)
      t.same(Object.keys(both.error?.details ?? {}).toSorted(), ['limit', 'offset'])
      t.equal((await client.get(`${path}?limit=1&offset=0`)).status, 200)
      t.equal((await client.get(`${path}?limit=1&limit=2`)).status, 400, 'given twice')
    }
  })
})
