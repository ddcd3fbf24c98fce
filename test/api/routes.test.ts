import fc from 'fast-check'
import t from 'tap'
import { covers, type RouteMatch } from '../../storage/routes/route.ts'
import { startApi } from '../support/api.ts'

t.test('/routes', async (t) => {
  const { client } = await startApi(t)
  for (const name of ['acme', 'initech']) await client.create('/organizations', { name })
  for (const name of ['globex', 'umbrella']) await client.create('/partners', { name })
  await client.create('/plugins/configs?type=as2-receiver', { name: 'in' })
  await client.create('/plugins/configs?type=as2-sender', { name: 'out' })
  await client.create('/plugins/configs?type=file-writer', {
    name: 'files',
    base_directory: '/tmp/x',
    enabled: false,
  })
  const route = { source_plugin: 'in', from: 'globex', to: 'acme', target_plugin: 'files' }
  const refused = async (body: object): Promise<Record<string, unknown>> => {
    const answer = await client.post('/routes', { ...route, ...body })
    t.equal(answer.status, 400)
    return answer.error?.details ?? {}
  }

  t.test('a route is created, from and to left out are *', async (t) => {
    const { data } = await client.post('/routes', route)
    t.match(data, { id: Number, name: null, ...route })
    const any = await client.create('/routes', { source_plugin: 'in', target_plugin: 'out' })
    t.match(any, { from: '*', to: '*' })
    await client.delete(`/routes/${String(any['id'])}`)
  })

  t.test('source and target must be existing instances that are a source and a target', async (t) => {
    t.match(await refused({ source_plugin: 'nobody' }), { source_plugin: /no plugin instance/ })
    t.match(await refused({ source_plugin: 'out', target_plugin: 'in' }), {
      source_plugin: /is no source/,
      target_plugin: /is no target/,
    })
  })

  t.test('a route that was read can be put back, and an update keeps what it leaves out', async (t) => {
    const { data: list } = await client.get('/routes')
    const [stored] = list['routes'] as [Record<string, unknown>]
    const path = `/routes/${String(stored['id'])}`
    t.match((await client.put(path, stored)).data, { ...stored, updated_at: String })
    t.match((await client.put(path, { name: 'renamed' })).data, { ...route, name: 'renamed' })
    t.match((await client.put(path, { name: null })).data, { ...route, name: null })
    t.match((await client.put(path, { id: 999_999 })).error?.details, { id: /path/ })
    t.match(await refused({ name: 'x'.repeat(65), priority: 1 }), {
      name: /64/,
      priority: 'unknown property',
    })
    t.match(await refused({ name: 'a\nb' }), { name: /control/ })
  })

  t.test('from and to must be existing parties or *', async (t) => {
    t.match(await refused({ from: 'nobody', to: 'no-one' }), { from: /no party/, to: /no party/ })
    t.same(Object.keys(await refused({ from: 'Not A Name' })), ['from'])
  })

  t.test('a route that an existing route covers is refused on to', async (t) => {
    t.match(await refused({}), { to: /covers/ })
    const { id } = await client.create('/routes', { ...route, from: 'umbrella', to: '*' })
    t.match(await refused({ from: 'umbrella', to: 'initech' }), { to: /covers/ })
    t.equal((await client.post('/routes', { ...route, from: '*' })).status, 201, 'a wider route is none')
    t.equal(
      (await client.put(`/routes/${String(id)}`, { to: 'acme' })).status,
      400,
      'covered by the wider one now',
    )
    t.equal(
      (await client.put(`/routes/${String(id)}`, { name: 'all' })).status,
      200,
      'a route does not cover itself',
    )
  })

  t.test('a route that a wider one has come to cover can be put back, renamed and deleted', async (t) => {
    const parties = { from: 'umbrella', to: 'acme' }
    const narrow = { ...route, ...parties, source_plugin: 'in', target_plugin: 'out2' }
    await client.create('/plugins/configs?type=file-writer', { name: 'out2', base_directory: '/tmp/out2' })
    const { id } = await client.create('/routes', narrow)
    await client.create('/routes', { ...narrow, from: '*', to: '*' })
    const stored = await client.get(`/routes/${String(id)}`)
    t.equal((await client.put(`/routes/${String(id)}`, stored.data)).status, 200)
    t.match(await client.put(`/routes/${String(id)}`, { name: 'narrow' }), {
      status: 200,
      data: { ...parties, name: 'narrow' },
    })
    const elsewhere = await client.put(`/routes/${String(id)}`, { from: '*', to: 'acme' })
    t.match(elsewhere, { status: 400, error: { details: { to: /covers/ } } })
    t.equal((await client.delete(`/routes/${String(id)}`)).status, 204)
  })

  t.test('a name that exists is 409 CONFLICT, after a route that is covered', async (t) => {
    const free = { ...route, target_plugin: 'out', from: 'umbrella' }
    const answer = await client.post('/routes', { ...free, name: 'all' })
    t.equal(answer.status, 409)
    t.equal(answer.error?.code, 'CONFLICT')
    t.match(await refused({ name: 'all' }), { to: /covers/ })
    t.equal((await client.post('/routes', { ...free, name: '' })).status, 400)
  })

  t.test('of equal routes sent at once one is stored', async (t) => {
    const same = { ...route, target_plugin: 'out', from: 'globex' }
    const answers = await Promise.all(Array.from({ length: 5 }, () => client.post('/routes', same)))
    t.same(
      answers.map(({ status }) => status).toSorted((a, b) => a - b),
      [201, 400, 400, 400, 400],
    )
  })

  t.test('a party and an instance that a route names cannot be deleted, nor the party renamed', async (t) => {
    const { data } = await client.get('/organizations?q=acme')
    const [{ id }] = data['organizations'] as [{ id: number }]
    const party = await client.delete(`/organizations/${id}`)
    t.equal(party.status, 409)
    t.match(party.error, {
      code: 'CONFLICT',
      details: { total: 3, users: [{ kind: 'route', fields: ['to'] }] },
    })
    t.equal((await client.put(`/organizations/${id}`, { name: 'acme-2' })).status, 409)
    t.equal((await client.put(`/organizations/${id}`, { display_name: 'Acme' })).status, 200)
    const instance = await client.delete('/plugins/configs/file-writer/files')
    t.match(instance.error, {
      code: 'CONFLICT',
      details: { users: [{ kind: 'route', fields: ['target_plugin'] }] },
    })
    const users = (instance.error?.details?.['users'] ?? []) as { link: string }[]
    t.equal((await client.get(users[0]?.link ?? '')).status, 200)
  })

  t.test('a party is not deleted while a route that names it is being saved', async (t) => {
    for (let round = 0; round < 10; round += 1) {
      const name = `brief-${round}`
      const { id } = await client.create('/partners', { name })
      const [saved, deleted] = await Promise.all([
        client.post('/routes', { ...route, from: name, target_plugin: 'out' }),
        client.delete(`/partners/${String(id)}`),
      ])
      // Whichever comes first, the other one is refused.
      t.ok(
        (saved.status === 201 && deleted.status === 409) || (saved.status === 400 && deleted.status === 204),
        `${saved.status} ${deleted.status}`,
      )
    }
  })

  t.test('what lists users names at most 25 and counts all', async (t) => {
    await client.create('/organizations', { name: 'popular' })
    for (let n = 0; n < 30; n += 1) {
      await client.create('/partners', { name: `p${n}` })
      await client.create('/routes', {
        source_plugin: 'in',
        from: `p${n}`,
        to: 'popular',
        target_plugin: 'out',
        name: `r${n}`,
      })
    }
    const { data } = await client.get('/organizations?q=popular')
    const [{ id }] = data['organizations'] as [{ id: number }]
    const { error } = await client.delete(`/organizations/${id}`)
    t.equal(error?.details?.['total'], 30)
    t.equal((error?.details?.['users'] as unknown[] | undefined)?.length, 25)
  })
})

t.test('a route covers another exactly when every message of that one matches it', async () => {
  const parties = ['a', 'b', 'c']
  const place = fc.constantFrom('*', ...parties)
  const route: fc.Arbitrary<RouteMatch> = fc.record({
    source_plugin: fc.constantFrom('s', 't'),
    from: place,
    to: place,
    target_plugin: fc.constantFrom('x', 'y'),
  })
  // A party that no route names stands for all others.
  const takes = (r: RouteMatch): Set<string> => {
    const pairs = [...parties, 'other'].flatMap((from) => [...parties, 'other'].map((to) => ({ from, to })))
    const matching = pairs.filter(
      ({ from, to }) => (r.from === '*' || r.from === from) && (r.to === '*' || r.to === to),
    )
    return new Set(matching.map(({ from, to }) => `${r.source_plugin} ${from} ${to} ${r.target_plugin}`))
  }
  fc.assert(
    fc.property(
      route,
      route,
      (wide, narrow) => covers(wide, narrow) === takes(narrow).isSubsetOf(takes(wide)),
    ),
  )
})
