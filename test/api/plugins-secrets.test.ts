import t from 'tap'
import { startApi } from '../support/api.ts'

/** Write-only values (specification, 2.1 rules 8 and 9). */

// On a busy machine many requests add up.
t.setTimeout(200_000)

const { client, database, records } = await startApi(t)

const SECRET = /hunter2/
const HEADERS = [{ name: 'X-Key', value: 'hunter2 header' }]

interface Case {
  readonly type: string
  readonly name: string
  /** The write-only properties, each with a value. */
  readonly secrets: Readonly<Record<string, unknown>>
  readonly url: string
  readonly username: Readonly<Record<string, string>>
}

const CASES: readonly Case[] = [
  {
    type: 'http-poster',
    name: 'post',
    url: 'https://example.com/in',
    username: { http_basic_username: 'waybill' },
    secrets: {
      http_basic_password: 'hunter2 password',
      http_headers: HEADERS,
      signing_secret: 'hunter2 signing',
    },
  },
  {
    type: 'notification-webhook',
    name: 'hook',
    url: 'https://hooks.example.com/hunter2',
    username: { basic_username: 'waybill' },
    secrets: { basic_password: 'hunter2 password', headers: HEADERS, signing_secret: 'hunter2 signing' },
  },
]

for (const { type, name, url, secrets, username } of CASES) {
  t.test(type, async (t) => {
    const path = `/plugins/configs/${type}/${name}`
    const urlIsSecret = type === 'notification-webhook'
    const [password = '', headers = '', signing = ''] = Object.keys(secrets)
    const opened = async () => (await records.plugins.instance(type, name))?.settings
    const keysOf = (answer: { error: { details?: object } | null }) =>
      Object.keys(answer.error?.details ?? {}).toSorted()

    t.test('write-only values are in no answer, and sealed at rest', async (t) => {
      const created = await client.post(`/plugins/configs?type=${type}`, {
        name,
        url,
        ...username,
        ...secrets,
      })
      t.equal(created.status, 201)
      const hidden = [...Object.keys(secrets), ...(urlIsSecret ? ['url'] : [])]
      for (const answer of [created, await client.get(path), await client.put(path, {})]) {
        t.notMatch(answer.text, SECRET)
        for (const property of hidden) t.notOk(property in answer.data, property)
        t.equal('url' in answer.data, !urlIsSecret)
      }
      t.notMatch((await client.get('/services')).text, SECRET)
      const { rows } = await database.pool.query<{ row: string }>(
        'select c::text as row from plugin_configuration c where name = $1',
        [name],
      )
      t.equal(rows.length, 1)
      for (const { row } of rows) t.notMatch(row, /hunter2|X-Key/)
      t.match(await opened(), { url, ...username, ...secrets }, 'the instance gets them')
    })

    t.test('an update that leaves them out keeps them: an answer can be sent back', async (t) => {
      const { data } = await client.get(path)
      const saved = await client.put(path, { ...data, retry_max_attempts: 3 })
      t.equal(saved.status, 200)
      t.same(saved.data, { ...data, retry_max_attempts: 3, updated_at: saved.data['updated_at'] })
      t.match(await opened(), { url, ...secrets })
    })

    t.test('a header list is replaced by a list, and removed by an empty one', async (t) => {
      const list = [{ name: 'X-Other', value: 'hunter2 other' }]
      t.equal((await client.put(path, { [headers]: list })).status, 200)
      t.same((await opened())?.[headers], list)
      t.equal((await client.put(path, { [headers]: [] })).status, 200)
      t.same((await opened())?.[headers], [])
      t.equal((await client.put(path, { [headers]: HEADERS })).status, 200)
    })

    t.test('a change of url must send every stored one again, each told by its own name', async (t) => {
      const elsewhere = 'https://evil.example/hunter2'
      const refused = await client.put(path, { url: elsewhere })
      t.equal(refused.status, 400)
      t.match(refused.error, { code: 'INVALID_INPUT', message: 'Validation failed' })
      t.same(keysOf(refused), Object.keys(secrets).toSorted())
      t.notMatch(refused.text, SECRET)
      t.same(
        keysOf(await client.put(path, { url: elsewhere, [password]: 'new password' })),
        [headers, signing].toSorted(),
      )
      const both = await client.put(path, { url: elsewhere, retry_max_attempts: 0 })
      t.same(
        keysOf(both),
        [...Object.keys(secrets), 'retry_max_attempts'].toSorted(),
        'with all else that is wrong',
      )
      t.match(await opened(), { url, ...secrets }, 'nothing was changed')

      t.equal((await client.put(path, { url })).status, 200, 'the stored url is no change')
      t.equal((await client.put(path, { url: elsewhere, ...secrets })).status, 200)
      t.match(await opened(), { url: elsewhere, ...secrets })
      t.equal((await client.put(path, { url, ...secrets })).status, 200)
    })

    t.test('only what is stored must be sent again, and an empty value clears', async (t) => {
      t.equal((await client.put(path, { [signing]: '' })).status, 200)
      t.equal((await opened())?.[signing], '')
      const moved = 'https://example.com/moved'
      t.same(keysOf(await client.put(path, { url: moved })), [password, headers].toSorted())
      const [user = ''] = Object.keys(username)
      const cleared = { [user]: '', [password]: '', [headers]: [] }
      t.equal((await client.put(path, { url: moved, ...cleared })).status, 200)
      t.match(await opened(), { url: moved, ...cleared, [signing]: '' })
      t.equal((await client.put(path, { url })).status, 200, 'now nothing is stored that could leak')
    })

    t.test('a user name and its password are cleared together', async (t) => {
      const [user = ''] = Object.keys(username)
      await client.put(path, { ...username, ...secrets })
      t.same(keysOf(await client.put(path, { [password]: '' })), [password])
      t.same(keysOf(await client.put(path, { [user]: '' })), [user])
      t.equal((await client.put(path, { [user]: '', [password]: '' })).status, 200)
      t.equal((await client.put(path, { ...username, ...secrets })).status, 200)
    })

    t.test('refusals do not tell them', async (t) => {
      const values = [5, 'hunter2\n', `hunter2${'x'.repeat(600)}`, { hunter2: 'hunter2' }, ['hunter2'], true]
      for (const value of values) {
        for (const property of [password, signing]) {
          const answer = await client.put(path, { [property]: value })
          t.same(keysOf(answer), [property])
          t.notMatch(answer.text, SECRET)
        }
      }
      for (const list of [
        'hunter2',
        ['hunter2'],
        [{ name: 'hunter2 x', value: 'x' }],
        [{ name: 'x', value: 'hunter2\n' }],
        [{ name: 'Host', value: 'hunter2' }],
      ]) {
        const answer = await client.put(path, { [headers]: list })
        t.same(keysOf(answer), [headers])
        t.notMatch(answer.text, SECRET)
      }
      for (const wrong of [
        'hunter2',
        'https://hunter2:hunter2@example.com/',
        'https://example.com/?token=hunter2',
        'ftp://hunter2/',
      ]) {
        const answer = await client.put(path, { url: wrong, ...secrets })
        t.same(keysOf(answer), ['url'])
        t.notMatch(answer.text, SECRET)
      }
    })
  })
}

t.test('a body that is no JSON is refused without quoting it', async (t) => {
  for (const raw of [
    '{"http_basic_password": hunter2}',
    '{"http_basic_password": "hunter2" "hunter2"}',
    '{"http_basic_password": "hunter2',
    'hunter2',
    '"hunter2" hunter2 "hunter2"',
  ]) {
    const headers = { 'content-type': 'application/json' }
    const answer = await client.ask('PUT', '/plugins/configs/http-poster/post', { raw, headers })
    t.equal(answer.status, 400)
    t.match(answer.error, { message: 'Invalid request body', details: { body: /\w/ } })
    t.notMatch(answer.text, SECRET)
  }
})
