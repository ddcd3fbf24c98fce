import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startApi } from '../support/api.ts'
import { until } from '../support/processes.ts'

t.setTimeout(160_000)

t.test('a poller whose folder is gone says so in held_back, until the folder is back', async (t) => {
  const { client, supervisor, directory } = await startApi(t)
  const base = join(directory, 'base')
  await mkdir(base)
  const settings = {
    name: 'orders',
    base_directory: base,
    processed_directory: join(directory, 'done'),
    from: 'acme',
    polling_interval: 1,
  }
  await client.post('/organizations', { name: 'acme' })
  const saved = await client.post('/plugins/configs?type=file-poller', settings)
  t.equal(saved.status, 201, saved.text)
  await client.post('/services/file-poller/orders/start', {})
  const heldBack = () => supervisor.find('file-poller', 'orders')?.held_back
  t.equal(heldBack(), null)
  await rename(base, join(directory, 'away'))
  await until(() => typeof heldBack() === 'string', 60_000)
  const answer = await client.get('/services')
  t.match(answer.data['services'], [{}, { name: 'orders', status: 'running', held_back: /ENOENT/ }])
  await rename(join(directory, 'away'), base)
  await until(() => heldBack() === null, 60_000)
  t.equal(supervisor.find('file-poller', 'orders')?.status, 'running')
})
