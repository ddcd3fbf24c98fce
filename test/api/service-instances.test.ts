import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startApi } from '../support/api.ts'

t.test('/services', async (t) => {
  const { client } = await startApi(t)
  const directory = join(t.testdir(), 'out')
  mkdirSync(directory)
  const act = (name: string, action: string) => client.post(`/services/file-writer/${name}/${action}`)
  const listed = async () =>
    (await client.get('/services')).data['services'] as { name: string; status: string }[]

  t.test('lists the API server, which cannot be controlled', async (t) => {
    t.match(await listed(), [
      { type: 'api-server', name: 'main', status: 'running', controllable: false, actions: [], error: null },
    ])
    const answer = await client.post('/services/api-server/main/restart')
    t.equal(answer.status, 403)
    t.equal(answer.error?.code, 'NOT_CONTROLLABLE')
  })

  t.test(
    'an enabled instance is listed as stopped as soon as it is saved, a disabled one is not',
    async (t) => {
      await client.create('/plugins/configs?type=file-writer', { name: 'files', base_directory: directory })
      await client.create('/plugins/configs?type=file-writer', {
        name: 'off',
        base_directory: directory,
        enabled: false,
      })
      t.match(await listed(), [
        { name: 'main' },
        { name: 'files', status: 'stopped', actions: ['start'], pid_thread: null },
      ])
      t.equal((await act('off', 'start')).status, 404)
      await client.put('/plugins/configs/file-writer/off', { enabled: true })
      t.equal((await listed()).length, 3)
      await client.put('/plugins/configs/file-writer/off', { enabled: false })
      t.equal((await listed()).length, 2)
    },
  )

  t.test('an action answers the instance in its new state', async (t) => {
    const started = await act('files', 'start')
    t.equal(started.status, 200)
    t.match(started.data, {
      type: 'file-writer',
      name: 'files',
      status: 'running',
      actions: ['stop', 'restart'],
    })
    t.match((await act('files', 'restart')).data, { status: 'running' })
    t.match((await act('files', 'stop')).data, { status: 'stopped' })
  })

  t.test('an action in the wrong state is 409 with the status and what is allowed', async (t) => {
    const answer = await act('files', 'stop')
    t.equal(answer.status, 409)
    t.match(answer.error, { code: 'INVALID_STATE', details: { status: 'stopped', allowed: ['start'] } })
  })

  t.test('an unknown instance is 404, an unknown action 400', async (t) => {
    t.equal((await act('nobody', 'start')).error?.code, 'NOT_FOUND')
    t.equal((await client.post('/services/as2-sender/files/start')).error?.code, 'NOT_FOUND')
    t.equal((await act('files', 'explode')).error?.code, 'INVALID_ACTION')
    t.equal((await act('nobody', 'explode')).error?.code, 'NOT_FOUND')
    t.equal((await client.get('/services/file-writer/files/start')).status, 405)
  })

  t.test(
    'a start that fails is 500 START_FAILED with the reason, and the instance is in error',
    async (t) => {
      await client.create('/plugins/configs?type=file-writer', {
        name: 'nowhere',
        base_directory: '/dev/null/nowhere',
      })
      const answer = await act('nowhere', 'start')
      t.equal(answer.status, 500)
      t.equal(answer.error?.code, 'START_FAILED')
      const instance = (await listed()).find(({ name }) => name === 'nowhere')
      t.match(instance, { status: 'error', error: answer.error?.message, actions: ['start', 'restart'] })
    },
  )

  t.test('deleting the configuration of a running instance stops it', async (t) => {
    await act('files', 'start')
    t.equal((await client.delete('/plugins/configs/file-writer/files')).status, 204)
    t.notOk((await listed()).some(({ name }) => name === 'files'))
  })
})
