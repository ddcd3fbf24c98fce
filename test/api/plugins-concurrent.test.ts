import t from 'tap'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { startApi } from '../support/api.ts'

t.setTimeout(120_000)

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

const WRITER = {
  enabled: true,
  path_pattern: '{to}/{filename}',
  on_conflict: 'rename',
  max_concurrent_deliveries: 1,
  retry_max_attempts: 1,
  retry_initial_seconds: 1,
  retry_max_seconds: 1,
}
