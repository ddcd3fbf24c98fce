import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Order } from '../actors/obedient.ts'
import { eventually, TestSupervisor } from '../test-supervisor.ts'

interface Breakdown {
  readonly what: string
  readonly order: Order
  readonly reason: RegExp
}

const BREAKDOWNS: readonly Breakdown[] = [
  { what: 'throws', order: { kind: 'throw_later', message: 'oops' }, reason: /^Uncaught error: oops/ },
  {
    what: 'leaves a rejection unhandled',
    order: { kind: 'reject_unhandled', message: 'oops' },
    reason: /^Uncaught error: oops/,
  },
  { what: 'exits', order: { kind: 'exit', code: 7 }, reason: /^The thread exited with code 7/ },
  {
    what: 'exits as if all were well',
    order: { kind: 'exit', code: 0 },
    reason: /^The thread exited with code 0/,
  },
  {
    what: 'runs out of heap',
    order: { kind: 'fill_heap' },
    reason: /^The thread ran out of memory \(limit 96 MB\)/,
  },
  { what: 'hangs', order: { kind: 'loop' }, reason: /^The thread gave no sign of life for 5 s/ },
  {
    what: 'says that it cannot go on',
    order: { kind: 'fail', message: 'the folder is gone' },
    reason: /^the folder is gone/,
  },
]

const LIMITS = { heapLimitMb: 96, heartbeatMs: 50, maxRestarts: 1 }

for (const { what, order, reason } of BREAKDOWNS) {
  t.test(`a thread that ${what} is restarted, then in error, and no other instance notices`, async (t) => {
    // A thread that fills its heap collects garbage for long before it ends.
    const silence = order.kind === 'loop' ? { silenceLimitMs: 5_000 } : {}
    const kernel = new TestSupervisor(t, { ...LIMITS, ...silence })
    const [first, neighbour] = await Promise.all([kernel.run({ name: 'one' }), kernel.run({ name: 'two' })])
    const restarted = kernel.until('one', ({ restarts, status }) => restarts === 1 && status === 'running')
    void kernel.order('one', order).catch(() => undefined)
    const second = await restarted
    t.not(second.pid_thread, first.pid_thread)
    t.equal(second.error, null)
    t.equal(await kernel.order('one', { kind: 'echo', value: 1 }), 1)
    t.same(kernel.alerts, [])

    const broken = kernel.until('one', ({ status }) => status === 'error')
    void kernel.order('one', order).catch(() => undefined)
    t.match(await broken, { error: reason, actions: ['start', 'restart'], pid_thread: null })
    t.match(kernel.alerts, [{ code: 'plugin_failed', type: 'obedient', name: 'one', reason, retries: false }])

    t.same(kernel.supervisor.find('obedient', 'two'), neighbour)
    t.equal(await kernel.order('two', { kind: 'echo', value: 2 }), 2)
  })
}

t.test('an instance in error after a breakdown can be started again', async (t) => {
  const kernel = new TestSupervisor(t, { maxRestarts: 0 })
  await kernel.run({ name: 'one' })
  const broken = kernel.until('one', ({ status }) => status === 'error')
  await kernel.order('one', { kind: 'throw_later', message: 'oops' }).catch(() => undefined)
  await broken
  t.match(await kernel.supervisor.start('obedient', 'one'), { status: 'running', error: null })
})

t.test('an instance that breaks down again and again is in error after five restarts', async (t) => {
  const starts = new SharedArrayBuffer(4)
  const kernel = new TestSupervisor(t)
  kernel.save({ name: 'one', settings: { starts } })
  const statuses = new Set<string>()
  kernel.supervisor.onChange(({ status }) => {
    statuses.add(status)
    // Ordered only once it runs: a thread that breaks down before that has failed to start.
    if (status === 'running') {
      void kernel.order('one', { kind: 'throw_later', message: 'oops' }).catch(() => undefined)
    }
  })
  await kernel.supervisor.start('obedient', 'one')
  const broken = await kernel.until('one', ({ status }) => status === 'error')
  t.equal(broken.restarts, 5)
  t.equal(new Int32Array(starts)[0], 6)
  t.match(broken.error, /oops \(5 restarts within 1200 s\)/)
  t.same(statuses, new Set(['starting', 'running', 'error']), 'between breakdown and restart it is starting')
  t.equal(kernel.alerts.length, 1)
})

t.test('a restart that fails is tried again within the same limit', async (t) => {
  const kernel = new TestSupervisor(t)
  await kernel.run({ name: 'one', settings: { start: 'fail_after_first', starts: new SharedArrayBuffer(4) } })
  const broken = kernel.until('one', ({ status }) => status === 'error')
  await kernel.order('one', { kind: 'throw_later', message: 'oops' })
  t.match(await broken, { error: /^the folder is gone \(5 restarts/, restarts: 5 })
  t.equal(kernel.alerts.length, 1)
})

t.test('requests that are pending when a thread ends are rejected', async (t) => {
  const kernel = new TestSupervisor(t)
  await kernel.run({ name: 'one' })
  const pending = Array.from({ length: 20 }, () => kernel.order('one', { kind: 'never_answer' }))
  const rejected = Promise.all(
    pending.map((request) =>
      t.rejects(request, {
        code: 'INSTANCE_UNAVAILABLE',
        message: 'The instance ended: Uncaught error: oops',
      }),
    ),
  )
  await kernel.order('one', { kind: 'throw_later', message: 'oops' }).catch(() => undefined)
  await rejected

  t.test('also at a stop in order', async (t) => {
    await kernel.until('one', ({ status }) => status === 'running')
    const last = t.rejects(kernel.order('one', { kind: 'never_answer' }), { code: 'INSTANCE_UNAVAILABLE' })
    await kernel.supervisor.stop('obedient', 'one')
    await last
    await t.rejects(kernel.order('one', { kind: 'echo', value: 1 }), {
      code: 'INSTANCE_UNAVAILABLE',
      message: 'obedient one is stopped',
    })
  })
})

t.test('a thread that cannot be ended is given up: error, and no second one beside it', async (t) => {
  const kernel = new TestSupervisor(t, { stopLimitMs: 20, endLimitMs: 20 })
  const mark = join(t.testdir(), 'blocked')
  t.teardown(async () => rmSync(mark, { force: true }))
  await kernel.run({ name: 'one' })
  void kernel.order('one', { kind: 'block_natively', mark }).catch(() => undefined)
  // Only a thread that stands still already cannot be ended.
  await eventually(() => existsSync(mark), 'the thread stands still')
  const outcome = await kernel.supervisor.stop('obedient', 'one')
  t.match(outcome, {
    status: 'error',
    error: /did not finish its work within 0.02 s, and its thread cannot be ended/,
  })
  t.equal(kernel.alerts.length, 1)
})
