import t from 'tap'
import { WaybillError } from '../../../runtime/errors.ts'
import { TestSupervisor, eventually } from '../test-supervisor.ts'

t.test('an instance that is saved is listed as stopped, before it was ever started', async (t) => {
  const { supervisor } = new TestSupervisor(t)
  supervisor.configure({ type: 'b', name: 'two', role: 'target', generation: '1' })
  supervisor.configure({ type: 'a', name: 'three', role: 'source', generation: '1' })
  supervisor.configure({ type: 'b', name: 'one', role: 'target', generation: '1' })
  t.same(
    supervisor.list().map(({ type, name }) => `${type}:${name}`),
    ['a:three', 'b:one', 'b:two'],
    'the list is sorted by type and name',
  )
  t.match(supervisor.find('a', 'three'), {
    type: 'a',
    name: 'three',
    status: 'stopped',
    error: null,
    controllable: true,
    actions: ['start'],
    restarts: 0,
    pid_thread: null,
    node: 'node-1',
  })
  t.equal(supervisor.find('a', 'one'), null)
})

t.test('stopped, start: running, and the answer holds the instance in its new state', async (t) => {
  const kernel = new TestSupervisor(t)
  const before = new Date()
  const instance = await kernel.run({ name: 'one', settings: { label: 'first' } })
  t.equal(instance.status, 'running')
  t.same(instance.actions, ['stop', 'restart'])
  t.type(instance.pid_thread, 'number')
  t.ok(instance.state_since >= before)
  t.same(await kernel.order('one', { kind: 'facts' }), {
    type: 'obedient',
    name: 'one',
    node: 'node-1',
    label: 'first',
    process: { databaseUrl: 'postgres://nowhere' },
  })
})

t.test('stopped, start fails: error, an alert, and START_FAILED with the reason', async (t) => {
  const kernel = new TestSupervisor(t)
  await t.rejects(kernel.run({ name: 'one', settings: { start: 'fail' } }), {
    code: 'START_FAILED',
    message: 'port 10080 is in use',
  })
  t.match(kernel.supervisor.find('obedient', 'one'), {
    status: 'error',
    error: 'port 10080 is in use',
    actions: ['start', 'restart'],
    restarts: 0,
    pid_thread: null,
  })
  t.same(kernel.alerts, [
    {
      code: 'plugin_failed',
      type: 'obedient',
      name: 'one',
      reason: 'port 10080 is in use',
      retries: false,
    },
  ])

  t.test('error, start: running', async (t) => {
    kernel.save({ name: 'one' })
    t.match(await kernel.supervisor.start('obedient', 'one'), { status: 'running', error: null })
  })
})

t.test('every way in which a start can fail has a reason', async (t) => {
  const kernel = new TestSupervisor(t)
  const rejectsWith = async (name: string, message: RegExp): Promise<void> => {
    const type = kernel.supervisor.list().find((instance) => instance.name === name)?.type ?? ''
    await t.rejects(kernel.supervisor.start(type, name), { code: 'START_FAILED', message })
    t.equal(kernel.supervisor.find(type, name)?.status, 'error')
  }
  kernel.save({ name: 'no-default', actor: 'no-default' })
  await rejectsWith('no-default', /has no default export that starts an actor/)
  kernel.save({ name: 'missing', actor: 'missing' })
  await rejectsWith('missing', /Cannot find module/)
  kernel.save({ name: 'unclonable', settings: { call: () => undefined } })
  await rejectsWith('unclonable', /could not be cloned/)
  kernel.save({ name: 'gone' })
  kernel.forget('gone')
  await rejectsWith('gone', /not configured, or not enabled/)
  t.equal(kernel.alerts.length, 4)
})

t.test('a start that is not ready within its limit fails, and its thread is ended', async (t) => {
  const kernel = new TestSupervisor(t, { startLimitMs: 50 })
  await t.rejects(kernel.run({ name: 'one', settings: { start: 'never' } }), {
    code: 'START_FAILED',
    message: 'The instance was not ready within 0.05 s',
  })
  t.equal(kernel.alerts.length, 1)
})

t.test('a start whose settings do not arrive fails, too', async (t) => {
  const kernel = new TestSupervisor(t, { startLimitMs: 50, loadSpec: () => new Promise(() => undefined) })
  await t.rejects(kernel.run({ name: 'one' }), { code: 'START_FAILED', message: /not ready within/ })
  const unreachable = new TestSupervisor(t, { loadSpec: () => Promise.reject(new Error('no database')) })
  await t.rejects(unreachable.run({ name: 'one' }), { code: 'START_FAILED', message: 'no database' })
})

t.test('a start that the database prevented is an alert which says that it is tried again', async (t) => {
  const kernel = new TestSupervisor(t, {
    loadSpec: () => Promise.reject(new WaybillError('DATABASE_UNAVAILABLE', 'no answer')),
  })
  await t.rejects(kernel.run({ name: 'one' }), { code: 'START_FAILED', message: 'no answer' })
  t.match(kernel.alerts, [{ reason: 'no answer', retries: true }])
})

t.test('running, stop: stopped in order, without an alert', async (t) => {
  const kernel = new TestSupervisor(t)
  const stopped = new SharedArrayBuffer(4)
  await kernel.run({ name: 'one', settings: { stopped } })
  t.match(await kernel.supervisor.stop('obedient', 'one'), {
    status: 'stopped',
    error: null,
    actions: ['start'],
    pid_thread: null,
  })
  t.equal(new Int32Array(stopped)[0], 1, 'the actor finished its work')
  t.same(kernel.alerts, [])
})

t.test('running, stop: stopped also when the actor cannot stop in order', async (t) => {
  const kernel = new TestSupervisor(t, { stopLimitMs: 50 })
  await kernel.run({ name: 'fails', settings: { stop: 'fail' } })
  t.equal((await kernel.supervisor.stop('obedient', 'fails')).status, 'stopped')
  await kernel.run({ name: 'never', settings: { stop: 'never' } })
  t.equal((await kernel.supervisor.stop('obedient', 'never')).status, 'stopped', 'its thread is ended')
  t.same(kernel.alerts, [])
})

t.test('running, restart: running in a new thread with the settings as they are saved now', async (t) => {
  const kernel = new TestSupervisor(t)
  const first = await kernel.run({ name: 'one', settings: { label: 'first' } })
  kernel.save({ name: 'one', settings: { label: 'second' } })
  t.match(await kernel.order('one', { kind: 'facts' }), { label: 'first' })
  const statuses: string[] = []
  kernel.supervisor.onChange(({ status }) => statuses.push(status))
  const second = await kernel.supervisor.restart('obedient', 'one')
  t.equal(second.status, 'running')
  t.not(second.pid_thread, first.pid_thread)
  t.equal(second.restarts, 0, 'a restart that was asked for is no breakdown')
  t.same(statuses, ['stopping', 'starting', 'running'], 'nobody can step in between')
  t.match(await kernel.order('one', { kind: 'facts' }), { label: 'second' })
})

t.test('error, restart: running', async (t) => {
  const kernel = new TestSupervisor(t)
  await t.rejects(kernel.run({ name: 'one', settings: { start: 'fail' } }))
  kernel.save({ name: 'one' })
  t.equal((await kernel.supervisor.restart('obedient', 'one')).status, 'running')
})

t.test('running, restart fails: START_FAILED, error and an alert', async (t) => {
  const kernel = new TestSupervisor(t)
  await kernel.run({ name: 'one' })
  kernel.save({ name: 'one', settings: { start: 'fail' } })
  await t.rejects(kernel.supervisor.restart('obedient', 'one'), { code: 'START_FAILED' })
  t.equal(kernel.supervisor.find('obedient', 'one')?.status, 'error')
  t.equal(kernel.alerts.length, 1)
})

t.test('an action in any other state changes nothing and is INVALID_STATE', async (t) => {
  const kernel = new TestSupervisor(t, { stopLimitMs: 200 })
  const { supervisor } = kernel
  const refused = async (action: 'start' | 'stop' | 'restart', status: string, allowed: string[]) => {
    await t.rejects(supervisor[action]('obedient', 'one'), {
      code: 'INVALID_STATE',
      details: { status, allowed },
    })
    t.equal(supervisor.find('obedient', 'one')?.status, status)
  }
  kernel.save({ name: 'one', settings: { start: 'fail', stop: 'never' } })
  await refused('stop', 'stopped', ['start'])
  await refused('restart', 'stopped', ['start'])
  const failing = supervisor.start('obedient', 'one')
  for (const action of ['start', 'stop', 'restart'] as const) await refused(action, 'starting', [])
  await t.rejects(failing)
  await refused('stop', 'error', ['start', 'restart'])
  kernel.save({ name: 'one', settings: { stop: 'never' } })
  await supervisor.start('obedient', 'one')
  await refused('start', 'running', ['stop', 'restart'])
  const stopping = supervisor.stop('obedient', 'one')
  for (const action of ['start', 'stop', 'restart'] as const) await refused(action, 'stopping', [])
  await stopping
})

t.test('an unknown instance is NOT_FOUND', async (t) => {
  const { supervisor } = new TestSupervisor(t)
  for (const action of ['start', 'stop', 'restart'] as const) {
    await t.rejects(supervisor[action]('obedient', 'nobody'), { code: 'NOT_FOUND' })
  }
  await t.rejects(supervisor.request('obedient', 'nobody', null, { timeoutMs: 10 }), { code: 'NOT_FOUND' })
  await t.resolves(supervisor.remove('obedient', 'nobody'))
})

t.test('startAll starts side by side, and one that fails does not hinder the others', async (t) => {
  const kernel = new TestSupervisor(t)
  kernel.save({ name: 'broken', settings: { start: 'fail' } })
  for (const name of ['one', 'two', 'three']) kernel.save({ name })
  await kernel.supervisor.startAll()
  t.same(
    kernel.supervisor.list().map(({ name, status }) => [name, status]),
    [
      ['broken', 'error'],
      ['one', 'running'],
      ['three', 'running'],
      ['two', 'running'],
    ],
  )
})

t.test('an instance that is removed is stopped and no longer listed', async (t) => {
  const kernel = new TestSupervisor(t)
  const { supervisor } = kernel
  await kernel.run({ name: 'one' })
  const removal = supervisor.remove('obedient', 'one')
  await t.rejects(supervisor.start('obedient', 'one'), { code: 'NOT_FOUND' })
  await removal
  t.same(supervisor.list(), [])

  t.test('also while it starts: who started it is told', async (t) => {
    kernel.save({ name: 'two', settings: { start: 'until_stopped' } })
    const start = supervisor.start('obedient', 'two')
    const told = t.rejects(start, { code: 'INVALID_STATE', message: /was stopped while it was starting/ })
    await supervisor.remove('obedient', 'two')
    await told
    t.same(supervisor.list(), [])
    t.same(kernel.alerts, [])
  })

  t.test('also while it starts anew, after a thread that has ended', async (t) => {
    await kernel.run({ name: 'again' })
    await supervisor.stop('obedient', 'again')
    const told = t.rejects(supervisor.start('obedient', 'again'), { code: 'INVALID_STATE' })
    await supervisor.remove('obedient', 'again')
    await told
    t.same(supervisor.list(), [])
  })

  t.test('one that is configured again meanwhile stays, stopped', async (t) => {
    await kernel.run({ name: 'three' })
    const again = supervisor.remove('obedient', 'three')
    supervisor.configure({ type: 'obedient', name: 'three', role: 'target', generation: '1' })
    await again
    t.equal(supervisor.find('obedient', 'three')?.status, 'stopped')
  })
})

t.test('an instance that is configured with another generation is stopped, and then a new one', async (t) => {
  const kernel = new TestSupervisor(t)
  const { supervisor } = kernel
  const generation = () => supervisor.generationOf('obedient', 'one')
  const configure = (next: string) =>
    supervisor.configure({ type: 'obedient', name: 'one', role: 'target', generation: next })
  t.equal(generation(), null)
  await kernel.run({ name: 'one' })
  configure('1')
  t.match(supervisor.find('obedient', 'one'), { status: 'running' }, 'the same')
  configure('2')
  t.match(supervisor.find('obedient', 'one'), { status: 'stopping' }, 'listed until it has stopped')
  await t.rejects(supervisor.start('obedient', 'one'), { code: 'INVALID_STATE' })
  configure('2')
  await eventually(() => generation() === '2', 'the new one is listed')
  t.match(supervisor.list(), [{ name: 'one', status: 'stopped', restarts: 0 }])

  t.test('also of one in error', async (t) => {
    kernel.save({ name: 'one', generation: '2', settings: { start: 'fail' } })
    await t.rejects(supervisor.start('obedient', 'one'), { code: 'START_FAILED' })
    configure('3')
    await eventually(() => generation() === '3', 'the new one is listed')
    t.match(supervisor.list(), [{ name: 'one', status: 'stopped', error: null }])
  })

  t.test('what is started is of the generation of its settings', async (t) => {
    kernel.save({ name: 'later' })
    kernel.replace({ name: 'later', generation: '5' })
    await supervisor.start('obedient', 'later')
    t.equal(supervisor.generationOf('obedient', 'later'), '5')
  })

  t.test('one that is removed meanwhile is listed no longer', async (t) => {
    await kernel.run({ name: 'two' })
    supervisor.configure({ type: 'obedient', name: 'two', role: 'target', generation: '2' })
    await supervisor.remove('obedient', 'two')
    t.equal(supervisor.find('obedient', 'two'), null)
    t.equal(supervisor.generationOf('obedient', 'two'), null)
  })
})

t.test('shutdown stops everything: running, starting, waiting for a restart', async (t) => {
  const kernel = new TestSupervisor(t, { firstBackoffMs: 3_600_000, largestBackoffMs: 3_600_000 })
  const { supervisor } = kernel
  const stopped = new SharedArrayBuffer(4)
  await kernel.run({ name: 'running', settings: { stopped } })
  await kernel.run({ name: 'waiting' })
  await kernel.order('waiting', { kind: 'throw_later', message: 'oops' })
  await kernel.until('waiting', ({ status, restarts }) => status === 'starting' && restarts === 1)
  kernel.save({ name: 'starting', settings: { start: 'until_stopped', starts: new SharedArrayBuffer(4) } })
  const starting = t.rejects(supervisor.start('obedient', 'starting'), { code: 'INVALID_STATE' })
  kernel.save({ name: 'loading' })
  const loading = t.rejects(supervisor.start('obedient', 'loading'), { code: 'INVALID_STATE' })
  await Promise.all([supervisor.shutdown(), supervisor.shutdown(), starting, loading])
  t.same(new Set(supervisor.list().map(({ status }) => status)), new Set(['stopped']))
  t.equal(new Int32Array(stopped)[0], 1, 'the one that ran finished its work')
  await t.rejects(supervisor.start('obedient', 'running'), { code: 'INVALID_STATE' })
  t.same(kernel.alerts, [])
})

t.test('what a listener throws does not disturb the supervisor', async (t) => {
  const kernel = new TestSupervisor(t, {
    onAlert: () => {
      throw new Error('the alert cannot be stored')
    },
  })
  kernel.supervisor.onChange(() => {
    throw new Error('the listener is broken')
  })
  await t.rejects(kernel.run({ name: 'one', settings: { start: 'fail' } }), { code: 'START_FAILED' })
  kernel.save({ name: 'one' })
  t.equal((await kernel.supervisor.start('obedient', 'one')).status, 'running')
})

t.test('a stop during the start lets the start finish and stops then', async (t) => {
  const kernel = new TestSupervisor(t)
  const starts = new SharedArrayBuffer(4)
  const stopped = new SharedArrayBuffer(4)
  kernel.save({ name: 'one', settings: { start: 'until_stopped', starts, stopped } })
  const start = t.rejects(kernel.supervisor.start('obedient', 'one'))
  await eventually(() => new Int32Array(starts)[0] === 1, 'the actor begins to start')
  await kernel.supervisor.shutdown()
  await start
  t.equal(new Int32Array(stopped)[0], 1)
})
