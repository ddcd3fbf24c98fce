import t from 'tap'
import type { SourceOrder } from '../actors/source.ts'
import type { TargetCounts, TargetOrder } from '../actors/target.ts'
import { TestSupervisor, eventually } from '../test-supervisor.ts'

const WINDOW = 100

class Exchange extends TestSupervisor {
  runSource(name = 'poller'): Promise<unknown> {
    return this.run({ name, actor: 'source', role: 'source' })
  }

  runTarget(settings = {}): Promise<unknown> {
    return this.run({ name: 'writer', actor: 'target', settings })
  }

  source(order: SourceOrder, name = 'poller'): Promise<unknown> {
    return this.supervisor.request('source', name, order, { timeoutMs: 120_000 })
  }

  target(order: TargetOrder): Promise<unknown> {
    return this.supervisor.request('target', 'writer', order, { timeoutMs: 120_000 })
  }

  async counts(): Promise<TargetCounts> {
    return (await this.target({ kind: 'counts' })) as TargetCounts
  }

  announce(count: number, times: number, name = 'poller'): Promise<unknown> {
    return this.source({ kind: 'announce', target: 'writer', count, times }, name)
  }

  async untilAnnounced(announced: number): Promise<void> {
    await eventually(async () => (await this.counts()).announced === announced, `${announced} are announced`)
  }

  async untilTold(told: number, name = 'poller'): Promise<void> {
    await eventually(async () => (await this.source({ kind: 'told' }, name)) === told, `${told} are told`)
  }
}

function open(t: ConstructorParameters<typeof Exchange>[0]): Exchange {
  return new Exchange(t, { creditWindow: WINDOW })
}

t.test('a target that settles nothing holds its source back at the credit window', async (t) => {
  const exchange = open(t)
  await Promise.all([exchange.runSource(), exchange.runTarget()])
  await exchange.announce(1, 100_000)
  await exchange.untilTold(WINDOW)
  await exchange.untilAnnounced(WINDOW)
  t.equal(await exchange.source({ kind: 'told' }), WINDOW, 'it stays there')

  t.test('each delivery that is settled lets one more through', async (t) => {
    await exchange.target({ kind: 'settle', count: 7 })
    await exchange.untilAnnounced(WINDOW + 7)
    await exchange.untilTold(WINDOW + 7)
    t.match(await exchange.counts(), { announced: WINDOW + 7, settled: 7 }, 'it stays there')
  })

  t.test('more settled than were announced gives no more credit', async (t) => {
    await exchange.target({ kind: 'settle', count: 10 * WINDOW })
    await exchange.untilAnnounced(2 * WINDOW + 7)
    await exchange.untilTold(2 * WINDOW + 7)
    t.match(await exchange.counts(), { announced: 2 * WINDOW + 7 }, 'it stays there')
  })

  t.test('a look that finds nothing waiting gives all credit back', async () => {
    await exchange.target({ kind: 'drained' })
    await exchange.untilAnnounced(3 * WINDOW + 7)
    await exchange.untilTold(3 * WINDOW + 7)
  })

  t.test('a stop of the source waits for no credit', async (t) => {
    t.match(await exchange.supervisor.stop('source', 'poller'), { status: 'stopped' })
    t.match(await exchange.counts(), { announced: 3 * WINDOW + 7 })
  })
})

t.test('a slow target never has more waiting than the window, however much is announced', async (t) => {
  const exchange = open(t)
  await Promise.all([exchange.runSource(), exchange.runTarget()])
  await exchange.target({ kind: 'settle_by_itself' })
  await exchange.announce(3, 10_000)
  await exchange.untilTold(10_000)
  await eventually(async () => (await exchange.counts()).settled === 30_000, 'all are settled')
  t.ok((await exchange.counts()).mostWaiting <= WINDOW)
})

t.test('an announcement larger than the window goes through in parts', async (t) => {
  const exchange = open(t)
  await Promise.all([exchange.runSource(), exchange.runTarget()])
  await exchange.announce(2 * WINDOW + 1, 1)
  await exchange.untilAnnounced(WINDOW)
  t.equal(await exchange.source({ kind: 'told' }), 0)
  await exchange.target({ kind: 'settle', count: WINDOW })
  await exchange.untilAnnounced(2 * WINDOW)
  await exchange.target({ kind: 'drained' })
  await exchange.untilTold(1)
  await exchange.untilAnnounced(2 * WINDOW + 1)
})

t.test('two sources have a window each and get credit in the order of their announcements', async (t) => {
  const exchange = open(t)
  await Promise.all([exchange.runSource(), exchange.runSource('receiver'), exchange.runTarget()])
  await exchange.announce(1, 1_000)
  await exchange.untilTold(WINDOW)
  // Heard, and not only told, before the other source begins: between two channels there is no order.
  await exchange.untilAnnounced(WINDOW)
  await exchange.announce(1, 1_000, 'receiver')
  await exchange.untilTold(WINDOW, 'receiver')
  await exchange.untilAnnounced(2 * WINDOW)
  await exchange.target({ kind: 'settle', count: WINDOW })
  await exchange.untilAnnounced(3 * WINDOW)
  await exchange.untilTold(2 * WINDOW)
  t.equal(await exchange.source({ kind: 'told' }, 'receiver'), WINDOW)
})

t.test('an announcement to a target that does not run resolves at once', async (t) => {
  const exchange = open(t)
  await exchange.runSource()
  await exchange.announce(1, 5 * WINDOW)
  await exchange.untilTold(5 * WINDOW)

  t.test('when it runs, the source is introduced without asking again', async () => {
    await exchange.runTarget()
    await exchange.announce(1, 5 * WINDOW)
    await exchange.untilAnnounced(WINDOW)
    await exchange.untilTold(6 * WINDOW)
  })
})

for (const { what, end } of [
  { what: 'stops', end: (exchange: Exchange) => exchange.supervisor.restart('target', 'writer') },
  { what: 'breaks down', end: (exchange: Exchange) => exchange.target({ kind: 'break_down' }) },
]) {
  t.test(
    `a target that ${what} releases the sources that wait for it, and holds them anew later`,
    async (t) => {
      const exchange = open(t)
      const [, first] = await Promise.all([exchange.runSource(), exchange.runTarget()])
      await exchange.announce(WINDOW + 1, 1)
      await exchange.untilAnnounced(WINDOW)
      await end(exchange)
      await exchange.until('writer', ({ status, pid_thread }) => {
        return status === 'running' && pid_thread !== (first as { pid_thread: number }).pid_thread
      })
      await exchange.untilTold(1)
      t.match(await exchange.counts(), { announced: 0 }, 'the database has what was not told')
      await exchange.announce(1, 5 * WINDOW)
      await exchange.untilAnnounced(WINDOW)
    },
  )
}

t.test('a source that breaks down leaves no debt behind', async (t) => {
  const exchange = open(t)
  await Promise.all([exchange.runSource(), exchange.runTarget()])
  await exchange.announce(1, 5 * WINDOW)
  await exchange.untilTold(WINDOW)
  const again = exchange.until('poller', ({ status, restarts }) => status === 'running' && restarts === 1)
  await exchange.source({ kind: 'break_down' })
  await again
  await exchange.announce(1, 5 * WINDOW)
  await exchange.untilTold(WINDOW)
  // By then the target has also heard that the channel of the broken source is closed.
  await exchange.untilAnnounced(2 * WINDOW)
  await exchange.target({ kind: 'settle', count: 1 })
  await exchange.untilTold(WINDOW + 1)
  await exchange.untilAnnounced(2 * WINDOW + 1)
})

t.test('announcements do not pass through the main thread', async (t) => {
  const exchange = open(t)
  const announced = new SharedArrayBuffer(4)
  await Promise.all([exchange.runSource(), exchange.runTarget({ announced })])
  await exchange.target({ kind: 'settle_by_itself' })
  // The first one brings the two together.
  await exchange.announce(1, 1)
  await exchange.untilAnnounced(1)
  await exchange.announce(1, 20_000)
  const seen = new Int32Array(announced)
  let before = Atomics.load(seen, 0)
  // This thread stands still and answers nobody.
  while (before < 20_001 && Atomics.wait(seen, 0, before, 120_000) !== 'timed-out')
    before = Atomics.load(seen, 0)
  t.equal(before, 20_001)
})

t.test('a target that does not listen holds nobody back', async (t) => {
  const exchange = open(t)
  await Promise.all([exchange.runSource(), exchange.runTarget({ listens: false })])
  await exchange.announce(1, 5 * WINDOW)
  await exchange.untilTold(5 * WINDOW)
})

t.test('the supervisor can tell a target of deliveries that no source announces', async (t) => {
  const exchange = open(t)
  exchange.supervisor.announce('writer', 3)
  await exchange.runTarget()
  exchange.supervisor.announce('writer', 4)
  exchange.supervisor.announce('nobody', 4)
  await exchange.untilAnnounced(4)
  await exchange.target({ kind: 'settle', count: 4 })
  t.match(await exchange.counts(), { announced: 4, settled: 4 })
})
