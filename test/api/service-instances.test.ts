import { once } from 'node:events'
import { randomInt } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { startApi } from '../support/api.ts'
import type { Answer } from '../support/client.ts'

interface Instance {
  readonly type: string
  readonly name: string
  readonly status: string
  readonly error: string | null
  readonly state_since: string
  readonly actions: readonly string[]
}

const ACTIONS = ['start', 'stop', 'restart'] as const
const refused = (status: string, allowed: readonly string[]) => ({
  code: 'INVALID_STATE',
  details: { status, allowed },
})

t.test('GET /services', async (t) => {
  const { client } = await startApi(t)
  const directory = t.testdir()
  const create = (name: string, changes: object = {}) =>
    client.create('/plugins/configs?type=file-writer', { name, base_directory: directory, ...changes })
  const listed = async (query = ''): Promise<Instance[]> =>
    (await client.get(`/services${query}`)).data['services'] as Instance[]

  t.test('lists the API server', async (t) => {
    t.match(await listed(), [
      {
        type: 'api-server',
        name: 'main',
        status: 'running',
        controllable: false,
        actions: [],
        error: null,
        restarts: 0,
        pid_thread: Number,
        node: 'test',
      },
    ])
  })

  t.test(
    'an enabled instance is listed as stopped as soon as it is saved, a disabled one is not',
    async (t) => {
      await create('files')
      await create('off', { enabled: false })
      t.match(await listed(), [
        { name: 'main' },
        {
          type: 'file-writer',
          name: 'files',
          status: 'stopped',
          error: null,
          controllable: true,
          actions: ['start'],
          restarts: 0,
          pid_thread: null,
          node: 'test',
        },
      ])
      t.same(
        (await listed()).map(({ name }) => name),
        ['main', 'files'],
      )
    },
  )

  t.test('one that is enabled is listed as stopped at once, one that is disabled no longer', async (t) => {
    await client.put('/plugins/configs/file-writer/off', { enabled: true })
    t.match((await listed()).at(-1), { name: 'off', status: 'stopped' })
    await client.put('/plugins/configs/file-writer/off', { enabled: false })
    t.notOk((await listed()).some(({ name }) => name === 'off'))
  })

  t.test('is in pages like all lists, by type and name', async (t) => {
    await create('archive')
    await client.create('/plugins/configs?type=as2-sender', { name: 'sender' })
    const page = async (query: string) => {
      const { data } = await client.get(`/services${query}`)
      const { services, ...rest } = data as { services: Instance[] }
      return { names: services.map(({ name }) => name), ...rest }
    }
    const names = ['main', 'sender', 'archive', 'files']
    t.same(await page(''), { names, total: 4, limit: 20, offset: 0 })
    t.same(await page('?limit=2'), { names: names.slice(0, 2), total: 4, limit: 2, offset: 0 })
    t.same(await page('?limit=2&offset=3'), { names: ['files'], total: 4, limit: 2, offset: 3 })
    t.same(await page('?limit=1000&offset=9'), { names: [], total: 4, limit: 500, offset: 9 })
    for (const query of ['limit=0', 'limit=x', 'offset=-1', 'limit=']) {
      const { status, error } = await client.get(`/services?${query}`)
      t.equal(status, 400, query)
      t.same(Object.keys(error?.details ?? {}), [query.split('=')[0]])
    }
  })
})

t.test('POST /services/{type}/{name}/{action}', async (t) => {
  const { client } = await startApi(t)
  const place = t.testdir()
  const directory = join(place, 'out')
  mkdirSync(directory)
  const path = '/plugins/configs/file-writer/files'
  const act = (action: string, name = 'files'): Promise<Answer> =>
    client.post(`/services/file-writer/${name}/${action}`)
  const instance = async (): Promise<Instance | undefined> =>
    ((await client.get('/services')).data['services'] as Instance[]).find(({ name }) => name === 'files')
  await client.create('/plugins/configs?type=file-writer', { name: 'files', base_directory: directory })

  t.test('API server, any action: 403 NOT_CONTROLLABLE', async (t) => {
    for (const action of [...ACTIONS, 'explode']) {
      const { status, error } = await client.post(`/services/api-server/main/${action}`)
      t.equal(status, 403)
      t.equal(error?.code, 'NOT_CONTROLLABLE')
    }
  })

  t.test('an unknown instance is 404, an unknown action of a known one 400', async (t) => {
    for (const action of [...ACTIONS, 'explode']) {
      t.match(await act(action, 'nobody'), { status: 404, error: { code: 'NOT_FOUND' } })
      const otherType = await client.post(`/services/as2-sender/files/${action}`)
      t.match(otherType, { status: 404, error: { code: 'NOT_FOUND' } })
      t.equal((await client.post(`/services/api-server/other/${action}`)).status, 404)
    }
    for (const action of ['explode', 'START', 'starts', 'toString']) {
      t.match(await act(action), { status: 400, error: { code: 'INVALID_ACTION' } })
    }
  })

  t.test('a disabled instance is unknown', async (t) => {
    await client.create('/plugins/configs?type=file-writer', {
      name: 'off',
      base_directory: directory,
      enabled: false,
    })
    for (const action of ACTIONS)
      t.match(await act(action, 'off'), { status: 404, error: { code: 'NOT_FOUND' } })
  })

  t.test('needs no body, but the Content-Type, and takes POST alone', async (t) => {
    const action = '/services/file-writer/files/start'
    t.equal((await client.ask('POST', action)).status, 415)
    t.same((await client.post(action, { force: true })).error?.details, { force: 'unknown property' })
    const get = await client.get(action)
    t.equal(get.status, 405)
    t.equal(get.headers.get('allow'), 'POST')
    t.match(await instance(), { status: 'stopped' }, 'none of them did anything')
  })

  t.test('stopped: stop and restart are 409, start leads to running', async (t) => {
    for (const action of ['stop', 'restart']) {
      const { status, error } = await act(action)
      t.equal(status, 409)
      t.match(error, refused('stopped', ['start']))
    }
    const started = await act('start')
    t.equal(started.status, 200)
    t.match(started.data, {
      type: 'file-writer',
      name: 'files',
      status: 'running',
      error: null,
      controllable: true,
      actions: ['stop', 'restart'],
      pid_thread: Number,
    })
    t.same(await instance(), started.data)
  })

  t.test('running: start is 409, restart leads to running in a new thread, stop to stopped', async (t) => {
    const { status, error } = await act('start')
    t.equal(status, 409)
    t.match(error, refused('running', ['stop', 'restart']))
    const before = (await instance()) as Instance & { pid_thread: number }
    const restarted = await act('restart')
    t.equal(restarted.status, 200)
    t.match(restarted.data, { status: 'running', restarts: 0 })
    t.not(restarted.data['pid_thread'], before.pid_thread)
    t.ok(Date.parse(restarted.data['state_since'] as string) >= Date.parse(before.state_since))
    const stopped = await act('stop')
    t.equal(stopped.status, 200)
    t.match(stopped.data, { status: 'stopped', actions: ['start'], error: null, pid_thread: null })
    t.same(await instance(), stopped.data)
  })

  t.test('a start that fails is 500 START_FAILED with the reason, and the status error', async (t) => {
    await client.put(path, { base_directory: '/dev/null/nowhere' })
    const answer = await act('start')
    t.equal(answer.status, 500)
    t.match(answer.error, { code: 'START_FAILED', message: /\/dev\/null\/nowhere/ })
    t.match(await instance(), {
      status: 'error',
      error: answer.error?.message,
      actions: ['start', 'restart'],
      pid_thread: null,
    })
  })

  t.test('error: stop is 409, start and restart try again', async (t) => {
    const { status, error } = await act('stop')
    t.equal(status, 409)
    t.match(error, refused('error', ['start', 'restart']))
    for (const action of ['start', 'restart']) {
      t.match(await act(action), { status: 500, error: { code: 'START_FAILED' } }, `${action} fails again`)
      t.match(await instance(), { status: 'error' })
    }
    await client.put(path, { base_directory: directory })
    t.match(await act('restart'), { status: 200, data: { status: 'running', error: null } })
  })

  t.test('a restart that fails is 500 START_FAILED, and the status error', async (t) => {
    await client.put(path, { base_directory: '/dev/null/nowhere' })
    t.match(await instance(), { status: 'running' }, 'a saved change restarts nothing')
    const answer = await act('restart')
    t.match(answer, { status: 500, error: { code: 'START_FAILED', message: /\/dev\/null\/nowhere/ } })
    t.match(await instance(), { status: 'error', error: answer.error?.message })
    await client.put(path, { base_directory: directory })
    t.match(await act('start'), { status: 200, data: { status: 'running', error: null } })
    await act('stop')
  })

  t.test('of actions at the same time one wins and the others are 409', async (t) => {
    for (const [action, status] of [
      ['start', 'running'],
      ['stop', 'stopped'],
    ] as const) {
      const answers = await Promise.all(Array.from({ length: 8 }, () => act(action)))
      const won = answers.filter((answer) => answer.status === 200)
      t.equal(won.length, 1, action)
      t.match(won[0]?.data, { status })
      for (const { status, error } of answers.filter((answer) => answer !== won[0])) {
        t.equal(status, 409)
        t.equal(error?.code, 'INVALID_STATE')
        const allowed: unknown = error?.details?.['allowed']
        t.ok(Array.isArray(allowed) && !allowed.includes(action))
      }
    }
  })

  t.test('a renamed instance there is not', async (t) => {
    const { status, error } = await client.put(path, { name: 'renamed' })
    t.equal(status, 400)
    t.same(Object.keys(error?.details ?? {}), ['name'])
    t.match(await instance(), { name: 'files' })
  })

  t.test('disabling a running instance stops it', async (t) => {
    await act('start')
    t.equal((await client.put(path, { enabled: false })).status, 200)
    t.equal(await instance(), undefined)
    t.equal((await act('start')).status, 404)
    await client.put(path, { enabled: true })
    t.match(await instance(), { status: 'stopped', actions: ['start'] })
  })

  t.test('deleting the configuration of a running instance stops it', async (t) => {
    await act('start')
    t.equal((await client.delete(path)).status, 204)
    t.equal(await instance(), undefined)
    t.equal((await act('stop')).status, 404)
  })
})

t.test('an instance that is stopped, disabled or deleted has let go of its port', async (t) => {
  const { client } = await startApi(t)
  const { holder, port } = await holdPort()
  const path = '/plugins/configs/as2-receiver/receiver'
  const act = (action: string): Promise<Answer> => client.post(`/services/as2-receiver/receiver/${action}`)
  const isFree = async (): Promise<boolean> => {
    const server = await listenOn(port)
    if (server === null) return false
    await closed(server)
    return true
  }
  await client.create('/plugins/configs?type=as2-receiver', { name: 'receiver', host: '127.0.0.1', port })

  t.test('the port in use is why a start fails', async (t) => {
    t.match(await act('start'), {
      status: 500,
      error: { code: 'START_FAILED', message: new RegExp(`${port}`) },
    })
    await closed(holder)
    t.match(await act('start'), { status: 200, data: { status: 'running' } })
    t.notOk(await isFree())
  })

  for (const [how, end] of [
    ['stopped', () => act('stop')],
    ['disabled', () => client.put(path, { enabled: false })],
    ['deleted', () => client.delete(path)],
  ] as const) {
    t.test(how, async (t) => {
      await client.put(path, { enabled: true })
      await act('start')
      t.notOk(await isFree())
      t.ok((await end()).status < 300)
      t.ok(await isFree())
    })
  }
})

/** A port below those that the system gives out, so that nobody takes it while it is free for a moment. */
async function holdPort(): Promise<{ holder: Server; port: number }> {
  for (;;) {
    const port = randomInt(15_000, 32_000)
    const holder = await listenOn(port)
    if (holder !== null) return { holder, port }
  }
}

async function listenOn(port: number): Promise<Server | null> {
  const server = createServer()
  const { promise, resolve } = Promise.withResolvers<Server | null>()
  server.once('error', () => resolve(null))
  server.listen(port, '127.0.0.1', () => resolve(server))
  return promise
}

async function closed(server: Server): Promise<void> {
  server.close()
  await once(server, 'close')
}

t.test('every action is a log line that names the caller', async (t) => {
  const lines: Record<string, unknown>[] = []
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>)
  const { client } = await startApi(t, { log: pino({ level: 'info' }, { write }) })
  const body = { name: 'files', base_directory: t.testdir() }
  await client.create('/plugins/configs?type=file-writer', body)
  const asked: unknown[] = []
  for (const action of ['start', 'restart', 'stop', 'stop']) {
    const { headers } = await client.post(`/services/file-writer/files/${action}`)
    asked.push({
      type: 'file-writer',
      name: 'files',
      action,
      caller: 'developer',
      requestId: headers.get('x-request-id'),
    })
  }
  const logged = lines
    .filter(({ msg }) => msg === 'Service action')
    .map(({ type, name, action, caller, requestId }) => ({ type, name, action, caller, requestId }))
  t.same(logged, asked)
})
