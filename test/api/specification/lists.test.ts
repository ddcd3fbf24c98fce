import t from 'tap'
import { startApi } from '../../support/api.ts'
import type { ApiClient } from '../../support/client.ts'
import type { Operation } from '../../support/described-api.ts'

/** Specification 2.1 rule 4 and 4.2, for every list that the served document has. */

/** Lists of 50 by default; all others have 20. */
const LARGER_LISTS = new Set(['/messages', '/notifications', '/audit'])

interface List {
  readonly path: string
  /** Its filters beside `limit` and `offset`. */
  readonly filters: readonly string[]
}

function listsOf(client: ApiClient): readonly List[] {
  const lists = client.operations().filter(({ method, operation }) => method === 'GET' && isList(operation))
  return lists.map(({ path, operation }) => ({
    path,
    filters: namesOf(operation).filter((name) => name !== 'limit' && name !== 'offset'),
  }))
}

function isList(operation: Operation): boolean {
  return namesOf(operation).includes('limit')
}

function namesOf({ parameters = [] }: Operation): readonly string[] {
  return parameters.map(({ name }) => name)
}

t.test('4.2 Lists, paging and filters', async (t) => {
  const { client } = await startApi(t)
  const lists = listsOf(client)
  const paths = lists.map(({ path }) => path)
  const refused = async (query: string, names: readonly string[]) => {
    const answer = await client.get(query)
    t.match(answer, { status: 400, error: { code: 'INVALID_INPUT', message: 'Validation failed' } }, query)
    t.same(Object.keys(answer.error?.details ?? {}).toSorted(), names, query)
  }

  t.test('4.2 every list of the document pages: none is without limit and offset', async (t) => {
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
      '/notifications',
      '/audit',
    ]) {
      t.ok(paths.includes(path), path)
    }
    for (const { method, path, operation } of client.operations()) {
      const names = namesOf(operation)
      t.equal(names.includes('limit'), names.includes('offset'), `${method} ${path}`)
    }
  })

  t.test('4.2 a list has its page under a plural key, and total, limit and offset', async (t) => {
    for (const path of paths) {
      const { status, data } = await client.get(path)
      t.equal(status, 200, path)
      const [plural, ...others] = Object.keys(data).filter(
        (key) => !['total', 'limit', 'offset'].includes(key),
      )
      t.same(others, [], path)
      t.match(plural, /s$/, path)
      t.ok(Array.isArray(data[plural ?? '']), path)
      t.match(data, { total: Number, limit: LARGER_LISTS.has(path) ? 50 : 20, offset: 0 }, path)
    }
  })

  t.test(
    '4.2 limit: default 20 (50 for messages, notifications, audit); larger than 500 is treated as 500',
    async (t) => {
      for (const path of paths) {
        for (const [asked, given] of [
          ['1', 1],
          ['007', 7],
          ['500', 500],
          ['501', 500],
          ['2147483648', 500],
          ['99999999999999999999999', 500],
          ['9'.repeat(400), 500],
        ] as const) {
          const { status, data } = await client.get(`${path}?limit=${asked}`)
          t.match({ status, limit: data['limit'] }, { status: 200, limit: given }, `${path}?limit=${asked}`)
        }
      }
    },
  )

  t.test('4.2 limit: not a whole number of at least 1 is 400 naming it, on every list', async () => {
    const wrong = [
      '0',
      '-1',
      '1.5',
      'abc',
      '',
      '%201',
      '1%20',
      '0x5',
      '1e2',
      '+1',
      '%2B1',
      'NaN',
      '١',
      'null',
      '[]',
      '00',
      '1,2',
    ]
    for (const path of paths) {
      for (const limit of wrong) await refused(`${path}?limit=${limit}`, ['limit'])
      await refused(`${path}?limit=1&limit=2`, ['limit'])
      await refused(`${path}?limit=1&limit=1`, ['limit'])
    }
  })

  t.test('4.2 offset: default 0; a large one is an empty page', async (t) => {
    for (const path of paths) {
      for (const offset of ['0', '1', '2147483648', '99999999999999999999', '9'.repeat(400)]) {
        const { status, data, text } = await client.get(`${path}?offset=${offset}`)
        t.equal(status, 200, `${path}?offset=${offset}: ${text}`)
        if (Number(offset) > 1) t.same(Object.values(data).find(Array.isArray), [], path)
      }
    }
  })

  t.test('4.2 offset: not a whole number of at least 0 is 400 naming it, on every list', async () => {
    for (const path of paths) {
      for (const offset of ['-1', '-0', '0.5', 'abc', '', '%200', '0x0', '1e2', '+0']) {
        await refused(`${path}?offset=${offset}`, ['offset'])
      }
      await refused(`${path}?offset=1&offset=2`, ['offset'])
      await refused(`${path}?limit=a&offset=-1`, ['limit', 'offset'])
    }
  })

  t.test('4.2 every filter that is given twice is 400 naming it', async () => {
    for (const { path, filters } of lists) {
      for (const name of filters) await refused(`${path}?${name}=a&${name}=b`, [name])
    }
  })

  t.test('4.2 a parameter that no list has is ignored, except on notifications and audit', async (t) => {
    for (const path of paths) {
      const answer = await client.get(`${path}?no_such_parameter=1&limit=1`)
      const refuses = path === '/notifications' || path === '/audit'
      t.equal(answer.status, refuses ? 400 : 200, path)
    }
    t.equal((await client.get('/organizations/999999?limit=x')).status, 404, 'nor has a record')
  })

  t.test(
    '4.2 GET /organizations, GET /partners: q finds text in name or display name, in any case',
    async (t) => {
      for (const path of ['/organizations', '/partners']) {
        await client.create(path, { name: 'alpha', display_name: 'Erste Firma' })
        await client.create(path, { name: 'beta', display_name: '100%_safe' })
        const total = async (q: string) =>
          (await client.get(`${path}?q=${encodeURIComponent(q)}`)).data['total']
        t.same(
          await Promise.all(['ALPH', 'firma', '%', '_', '%_', 'a', '', 'x%', '\\'].map(total)),
          [1, 1, 1, 1, 1, 2, 2, 0, 0],
          path,
        )
      }
    },
  )

  t.test('4.2 filters combine, and the page is of what they leave', async (t) => {
    for (let index = 0; index < 5; index += 1)
      await client.create('/organizations', { name: `page-${index}` })
    const { data } = await client.get('/organizations?q=page&limit=2&offset=3')
    t.match(data, { total: 5, limit: 2, offset: 3, organizations: [{ name: 'page-3' }, { name: 'page-4' }] })
    t.match((await client.get('/organizations?q=page&offset=5')).data, { total: 5, organizations: [] })
    t.match((await client.get('/organizations?q=nothing&offset=5')).data, { total: 0, organizations: [] })
  })

  t.test('4.2 GET /certificates: status and key take their values alone', async () => {
    await refused('/certificates?status=unknown', ['status'])
    await refused('/certificates?status=&key=', ['key', 'status'])
    await refused('/certificates?key=yes&status=VALID', ['key', 'status'])
  })

  t.test('4.2 GET /certificates/expiring: days is a whole number of at least 1', async (t) => {
    for (const days of ['0', '-1', '1.5', 'x', ''])
      await refused(`/certificates/expiring?days=${days}`, ['days'])
    t.equal((await client.get('/certificates/expiring?days=1')).status, 200)
    t.equal((await client.get(`/certificates/expiring?days=${'9'.repeat(30)}`)).status, 200)
  })

  t.test('4.2 GET /notifications: severity, outcome and include_tests take their values alone', async (t) => {
    await refused('/notifications?severity=fatal', ['severity'])
    await refused('/notifications?outcome=sent&severity=', ['outcome', 'severity'])
    await refused('/notifications?include_tests=1&from=yesterday&to=', ['from', 'include_tests', 'to'])
    const nobody = await client.get('/notifications?code=no_such&instance=nobody')
    t.match(nobody, { status: 200, data: { total: 0, notifications: [] } }, 'free text finds nothing')
  })

  t.test('4.2 GET /messages: status is one of nine, since is a time of RFC 3339', async (t) => {
    const statuses = 'Received InProgress Retrying AwaitingReceipt Stalled Delivered NotRouted Refused Error'
    for (const status of statuses.split(' '))
      t.equal((await client.get(`/messages?status=${status}`)).status, 200)
    for (const status of ['delivered', 'Unknown', '']) await refused(`/messages?status=${status}`, ['status'])
    for (const since of [
      'yesterday',
      '2026-01-01',
      '2026-13-01T00:00:00Z',
      '2026-01-01T00:00:00',
      '1767225600',
      '',
    ]) {
      await refused(`/messages?since=${since}`, ['since'])
    }
    for (const since of ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00.123456%2B02:00']) {
      t.equal((await client.get(`/messages?since=${since}`)).status, 200, since)
    }
    const nobody = await client.get('/messages?from=nobody&to=nobody')
    t.match(nobody, { status: 200, data: { total: 0, messages: [] } }, 'an unknown party has no messages')
  })
})
