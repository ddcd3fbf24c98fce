import t from 'tap'
import { pino } from 'pino'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { startApi } from '../support/api.ts'
import { auditEvents, eventsOf } from '../support/audit-events.ts'
import type { Answer } from '../support/client.ts'
import { TestIssuer } from '../support/test-issuer.ts'

/** Events of tokens and instances, and who did it (specification, 2.15, 5.2, 5.6 and 6.3). */

// On a busy machine many requests add up.
t.setTimeout(240_000)

t.test('6.3 API tokens are made and revoked', async (t) => {
  const { client } = await startApi(t)
  const account = Number((await client.create('/service-accounts', { name: 'erp' }))['id'])
  const make = (label: string) => client.create('/api-tokens', { service_account: 'erp', label })
  let first: Readonly<Record<string, unknown>> = {}
  const made = await eventsOf(client, async () => {
    first = await make('nightly')
  })
  const common = { actor: 'developer', kind: 'api-token', record_id: first['id'], record_name: 'nightly' }
  t.same(made, [
    {
      ...common,
      action: 'made',
      changes: [
        { field: 'public_id', new: first['public_id'] },
        { field: 'service_account', new: 'erp' },
        { field: 'label', new: 'nightly' },
        { field: 'expires_at', new: first['expires_at'] },
      ],
    },
  ])
  t.notMatch(JSON.stringify(made), String(first['token']))

  t.test('once: to revoke it again is no event', async (t) => {
    const revoked = await eventsOf(client, () => client.delete(`/api-tokens/${String(first['id'])}`))
    t.match(revoked, [{ ...common, action: 'revoked' }])
    t.match(revoked[0]?.changes, [{ field: 'revoked_at', old: null, new: /^\d{4}-.*Z$/ }])
    t.same(await eventsOf(client, () => client.delete(`/api-tokens/${String(first['id'])}`)), [])
  })

  t.test('3.5 the deletion of their account revokes each that is not revoked yet', async (t) => {
    const second = await make('second')
    const third = await make('third')
    const events = await eventsOf(client, () => client.delete(`/service-accounts/${account}`))
    t.match(events, [
      { action: 'revoked', kind: 'api-token', record_id: second['id'], record_name: 'second' },
      { action: 'revoked', kind: 'api-token', record_id: third['id'], record_name: 'third' },
      { action: 'deleted', kind: 'service-account', record_id: account, record_name: 'erp' },
    ])
    t.equal(events.length, 3)
    const gone = (await auditEvents(client)).map(({ kind, record_gone }) => `${kind} ${record_gone}`)
    t.same(new Set(gone), new Set(['service-account true', 'api-token false']), 'tokens stay listed')
  })
})

t.test('what becomes of instances is told when it has happened', async (t) => {
  const { client } = await startApi(t)
  const directory = t.testdir()
  const path = '/plugins/configs/file-writer/files'
  const act = (action: string) => client.post(`/services/file-writer/files/${action}`)
  const subject = { actor: 'developer', record_id: 'file-writer:files', record_name: 'files' }
  const instance = { ...subject, kind: 'service-instance' }
  const configuration = { ...subject, kind: 'plugin-configuration' }
  const status = (old: string, now: string) => [{ field: 'status', old, new: now }]
  await client.create('/plugins/configs?type=file-writer', { name: 'files', base_directory: directory })

  t.test('started, restarted, stopped', async (t) => {
    const events = await eventsOf(client, async () => {
      for (const action of ['start', 'restart', 'stop']) t.equal((await act(action)).status, 200)
    })
    t.same(events, [
      { ...instance, action: 'started', changes: status('stopped', 'running') },
      { ...instance, action: 'restarted', changes: [] },
      { ...instance, action: 'stopped', changes: status('running', 'stopped') },
    ])
  })

  t.test('an action that is refused or unknown leaves none', async (t) => {
    const events = await eventsOf(client, async () => {
      t.equal((await act('stop')).status, 409)
      t.equal((await act('explode')).status, 400)
      t.equal((await client.post('/services/file-writer/nobody/start')).status, 404)
      t.equal((await client.post('/services/api-server/main/stop')).status, 403)
    })
    t.same(events, [])
  })

  t.test('a start that fails leaves none; a restart that fails has stopped what ran', async (t) => {
    t.equal((await act('start')).status, 200)
    await client.put(path, { base_directory: '/dev/null/nowhere' })
    const restart = await eventsOf(client, async () => t.equal((await act('restart')).status, 500))
    t.same(restart, [{ ...instance, action: 'stopped', changes: status('running', 'error') }])
    const start = await eventsOf(client, async () => {
      t.equal((await act('start')).status, 500)
      t.equal((await act('restart')).status, 500)
    })
    t.same(start, [])
    await client.put(path, { base_directory: directory })
  })

  t.test('disabling or deleting a running instance stops it', async (t) => {
    t.equal((await act('start')).status, 200)
    const disabled = await eventsOf(client, () => client.put(path, { enabled: false }))
    const stopped = { ...instance, action: 'stopped', changes: status('running', 'stopped') }
    const changes = [{ field: 'enabled', old: true, new: false }]
    t.same(disabled, [{ ...configuration, action: 'updated', changes }, stopped])
    await client.put(path, { enabled: true })
    t.equal((await act('start')).status, 200)
    const deleted = await eventsOf(client, () => client.delete(path))
    t.match(deleted, [{ ...configuration, action: 'deleted' }, stopped])
    t.equal(deleted.length, 2)
  })
})

t.test('one caller is named by the event, the log lines and the history', async (t) => {
  const lines: Record<string, unknown>[] = []
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>)
  const api = await startApi(t, { log: pino({ level: 'info' }, { write }) })
  const { client } = api
  const issuer = await TestIssuer.start(t)
  await client.create('/oidc-providers', {
    name: 'login',
    issuer_url: issuer.url,
    sign_in: false,
    api_audience: 'waybill',
  })
  await client.create('/service-accounts', { name: 'erp' })
  await client.create('/service-accounts', {
    name: 'robot',
    kind: 'federated',
    oidc_issuer: issuer.url,
    oidc_subject: 'client-7',
  })
  const identity = { kind: 'identity', issuer: issuer.url, subject: 'anna-s-subject' } as const
  await api.identity.users.add('anna', identity, SYSTEM_CALLER)
  const made = await client.create('/api-tokens', { service_account: 'erp', label: 'first' })
  await client.create('/organizations', { name: 'acme' })
  await client.create('/partners', { name: 'globex' })
  const writers = '/plugins/configs?type=file-writer'
  await client.create(writers, { name: 'out', base_directory: t.testdir() })
  await client.create(writers, { name: 'broken', base_directory: '/dev/null/nowhere' })

  const anna = await issuer.token({ claims: { sub: 'anna-s-subject' } })
  const robot = await issuer.token({ claims: { sub: 'client-7' } })
  for (const [actor, token] of [
    ['sa:erp', String(made['token'])],
    ['sa:robot', robot],
    ['anna-s-subject', anna],
    ['developer', null],
  ] as const) {
    t.test(actor, async (t) => {
      const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` }
      const ask = async (method: string, path: string, body: object): Promise<Answer> => {
        const answer = await client.ask(method, path, { body, headers })
        t.ok(answer.status < 300, answer.text)
        return answer
      }
      const events = await eventsOf(client, async () => {
        await ask('PUT', '/organizations/1', { display_name: actor })
        await ask('POST', '/services/file-writer/out/start', {})
        await ask('POST', '/services/file-writer/out/stop', {})
      })
      t.match(events, [
        { actor, action: 'updated', kind: 'organization' },
        { actor, action: 'started', kind: 'service-instance' },
        { actor, action: 'stopped', kind: 'service-instance' },
      ])
      t.equal(events.length, 3)

      const failed = await client.ask('POST', '/services/file-writer/broken/start', { headers, body: {} })
      const requestId = failed.headers.get('x-request-id')
      const line = lines.findLast((each) => each['requestId'] === requestId)
      t.match(line, { caller: actor, code: 'START_FAILED', msg: 'Request not carried out' })
      t.match(
        lines.findLast(({ msg }) => msg === 'Service action'),
        { caller: actor, name: 'broken', action: 'start' },
      )

      const parts = { from: 'acme', to: 'globex', target: 'out', file: 'UNA' }
      const sent = await client.ask('POST', '/messages', { parts, headers })
      const id = String(sent.data['id'])
      await ask('POST', `/messages/${id}/redispatch`, {})
      t.match(
        lines.findLast(({ msg }) => msg === 'Redispatch requested'),
        { caller: actor, message: id },
      )
      const { rows } = await api.database.pool.query<{ text: string }>(
        'select row_to_json(history)::text as text from history where message_id = $1',
        [id],
      )
      t.ok(
        rows.some(({ text }) => text.includes(`by ${actor}`)),
        rows.map(({ text }) => text).join('\n'),
      )
    })
  }

  t.test('system, of what a command does', async (t) => {
    const events = (await auditEvents(client)).filter(({ kind }) => kind === 'user')
    t.match(events, [{ actor: 'system', action: 'created', record_name: 'anna' }])
  })
})
