import t from 'tap'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { startApi } from '../support/api.ts'
import { until } from '../support/processes.ts'

const LIMIT_MS = 120_000

t.setTimeout(600_000)

t.test('of concurrent updates that enable and disable an instance the stored one counts', async (t) => {
  const { client } = await startApi(t)
  const places = { base_directory: `${t.testdirName}/out` }
  const names = ['one', 'two', 'three', 'four']
  for (const name of names) await client.create('/plugins/configs?type=file-writer', { name, ...places })
  const isListed = async (name: string): Promise<boolean> => {
    const { services } = (await client.get('/services')).data as { services: readonly { name: string }[] }
    return services.some((service) => service.name === name)
  }
  for (let round = 0; round < 5; round += 1) {
    const updates = names.flatMap((name) =>
      [true, false, true, false].map((enabled) =>
        client.put(`/plugins/configs/file-writer/${name}`, { enabled }),
      ),
    )
    for (const { status } of await Promise.all(updates)) t.equal(status, 200)
    for (const name of names) {
      const { enabled } = (await client.get(`/plugins/configs/file-writer/${name}`)).data
      t.equal(await isListed(name), enabled, `${name} in round ${round}`)
    }
  }
})

t.test('what another node saves is listed here, and what it disables or deletes is stopped', async (t) => {
  const { client, records, instances } = await startApi(t)
  const statuses = async () => {
    const { services } = (await client.get('/services')).data as {
      services: readonly { name: string; status: string }[]
    }
    return Object.fromEntries(services.map(({ name, status }) => [name, status]))
  }
  const base = `${t.testdirName}/out`
  await client.create('/plugins/configs?type=file-writer', { name: 'here', base_directory: base })
  await client.post('/services/file-writer/here/start')
  // As another process would, which knows nothing of this supervisor.
  await records.plugins.create(
    'file-writer',
    { ...WRITER, name: 'there', base_directory: base },
    SYSTEM_CALLER,
  )
  await instances.round()
  t.match(await statuses(), { here: 'running', there: 'stopped' })
  await records.plugins.delete('file-writer', 'here', SYSTEM_CALLER)
  await instances.round()
  t.same(await statuses(), { main: 'running', there: 'stopped' })
})

for (const [type, settings] of [
  ['file-writer', { base_directory: '/tmp' }],
  ['http-poster', { url: 'http://127.0.0.1:9/' }],
  ['notification-webhook', { url: 'http://127.0.0.1:9/' }],
] as const) {
  t.test(`what another node saves anew under the same name is stopped here: ${type}`, async (t) => {
    const { client, database, records, instances, supervisor } = await startApi(t)
    const { pool } = database
    const untilStopped = () => until(() => supervisor.find(type, 'same')?.status === 'stopped', LIMIT_MS)
    const start = async () => t.equal((await client.post(`/services/${type}/same/start`)).status, 200)
    await client.create(`/plugins/configs?type=${type}`, { name: 'same', ...settings })
    await start()
    const saved = await records.plugins.get(type, 'same')
    await instances.round()
    t.match(supervisor.find(type, 'same'), { status: 'running' }, 'nothing was saved meanwhile')

    // As another process would, which knows nothing of this supervisor.
    await records.plugins.delete(type, 'same', SYSTEM_CALLER)
    const anew = { ...saved.settings, ...settings, name: 'same', enabled: true }
    await records.plugins.create(type, anew, SYSTEM_CALLER)
    await instances.round()
    await untilStopped()
    await start()
    await instances.round()
    t.match(supervisor.find(type, 'same'), { status: 'running' }, 'it was started as it is saved')

    await pool.query(`update plugin_configuration set enabled = false where name = 'same'`)
    await pool.query(`update plugin_configuration set enabled = true where name = 'same'`)
    await instances.round()
    await untilStopped()
    t.equal((await client.get('/services')).data['total'], 2)
  })
}

const WRITER = {
  enabled: true,
  path_pattern: '{to}/{filename}',
  on_conflict: 'rename',
  max_concurrent_deliveries: 1,
  retry_max_attempts: 1,
  retry_initial_seconds: 1,
  retry_max_seconds: 1,
}
