import t from 'tap'
import { startApi } from '../support/api.ts'
import { eventsOf } from '../support/audit-events.ts'
import { waybillHere } from '../support/command.ts'
import { temporaryDirectory } from '../support/processes.ts'

/** What the operator does on the command line is in the audit log too, as done by `system`. */

t.setTimeout(240_000)

const PASSWORD = 'correct horse battery staple'

t.test('commands write audit events', async (t) => {
  const { client, database } = await startApi(t)
  const directory = await temporaryDirectory(t)
  const env = { DATABASE_URL: database.url }
  const run = async (args: readonly string[], input = ''): Promise<void> => {
    const { code, stderr } = await waybillHere(args, { directory, env, input })
    t.equal(code, 0, stderr)
  }
  const issuer = 'https://login.example'
  const provider = { name: 'login', issuer_url: issuer, sign_in: false, api_audience: 'waybill' }
  await client.create('/oidc-providers', provider)

  t.test('waybill user', async (t) => {
    const user = { actor: 'system', kind: 'user', record_id: 1, record_name: 'anna' }
    const added = await eventsOf(client, () => run(['user', 'add', 'anna'], PASSWORD))
    const changes = [
      { field: 'name', new: 'anna' },
      { field: 'enabled', new: true },
      { field: 'oidc_issuer', new: '' },
      { field: 'oidc_subject', new: '' },
      { field: 'password', secret: true },
    ]
    t.same(added, [{ ...user, action: 'created', changes }])

    const identity = ['--issuer', issuer, '--subject', '4711']
    for (const [args, change] of [
      [['disable', 'anna'], [{ field: 'enabled', old: true, new: false }]],
      [['enable', 'anna'], [{ field: 'enabled', old: false, new: true }]],
      [['set-password', 'anna'], [{ field: 'password', secret: true }]],
      [
        ['link', 'anna', ...identity],
        [
          { field: 'oidc_issuer', old: '', new: issuer },
          { field: 'oidc_subject', old: '', new: '4711' },
        ],
      ],
    ] as const) {
      const events = await eventsOf(client, () => run(['user', ...args], PASSWORD))
      t.same(events, [{ ...user, action: 'updated', changes: change }], args.join(' '))
    }
    t.same(await eventsOf(client, () => run(['user', 'enable', 'anna'])), [], 'she is enabled already')
    t.same(await eventsOf(client, () => run(['user', 'list'])), [])
    const refused = await eventsOf(client, async () => {
      const { code } = await waybillHere(['user', 'disable', 'nobody'], { directory, env })
      t.equal(code, 1)
    })
    t.same(refused, [])
  })

  t.test('waybill token create', async (t) => {
    const args = ['token', 'create', '--service-account', 'ops', '--label']
    const account = { kind: 'service-account', action: 'created', record_name: 'ops' }
    const token = { kind: 'api-token', action: 'made' }
    const first = await eventsOf(client, () => run([...args, 'first']))
    t.match(first, [
      { ...account, actor: 'system' },
      { ...token, actor: 'system', record_name: 'first' },
    ])
    t.equal(first.length, 2)
    const second = await eventsOf(client, () => run([...args, 'second']))
    t.match(second, [{ ...token, actor: 'system', record_name: 'second' }])
    t.equal(second.length, 1, 'the account was there')
  })

  t.test('waybill settings storage local', async (t) => {
    const events = await eventsOf(client, () => run(['settings', 'storage', 'local', './elsewhere']))
    const changes = [{ field: 'storage_local_directory', old: './payloads', new: './elsewhere' }]
    const settings = { kind: 'settings', record_id: null, record_name: 'settings' }
    t.same(events, [{ actor: 'system', action: 'updated', ...settings, changes }])
  })
})
