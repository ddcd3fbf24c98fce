import fc from 'fast-check'
import t from 'tap'
import { ACTIONS, allows, isTransient } from '../../../runtime/lifecycle.ts'
import {
  decide,
  newMachine,
  type Effect,
  type Machine,
  type SupervisorEvent,
} from '../../../runtime/supervisor/decide.ts'
import { DEFAULT_LIMITS } from '../../../runtime/supervisor/limits.ts'

/**
 * A world around the decisions: threads that do what a thread can do, in any order. It carries effects out as the
 * shell does, and checks after each step what must always hold.
 */
class World {
  machine: Machine
  nowMs = Date.UTC(2026, 0, 1)
  /** The newest thread, as long as it exists. */
  thread: { readonly run: number; asked: boolean; ending: boolean; ready: boolean } | null = null
  timerDueMs: number | null = null
  alerts = 0
  /** When each restart by the supervisor itself began, since somebody last started the instance. */
  restarts: number[] = []
  #spawning: 'action' | 'breakdown' | 'outage' = 'action'

  constructor() {
    this.machine = newMachine(new Date(this.nowMs))
  }

  get status() {
    return this.machine.state.status
  }

  tell(event: SupervisorEvent): void {
    const before = this.machine
    const wasError = before.state.status === 'error'
    const wasOutage = before.outages > 0
    const decision = decide(before, event, { now: new Date(this.nowMs), limits: DEFAULT_LIMITS })
    this.machine = decision.machine
    if (this.machine.state.status === 'starting') this.#spawning = this.machine.state.cause
    const alertsBefore = this.alerts
    for (const effect of decision.effects) this.#act(effect)
    const raised = this.alerts - alertsBefore
    const failed =
      !wasError && this.status === 'error' && !(wasOutage && this.machine.outages > before.outages)
    check(raised === (failed ? 1 : 0), 'an alert is raised when an instance comes into error, one an outage')
    this.checkInvariants()
  }

  #act(effect: Effect): void {
    switch (effect.kind) {
      case 'spawn':
        check(this.thread === null, 'an instance has one thread at most')
        this.thread = { run: effect.run, asked: false, ending: false, ready: false }
        if (this.#spawning === 'breakdown') this.restarts.push(this.nowMs)
        else if (this.#spawning === 'action') this.restarts = []
        return
      case 'ask_stop':
        check(this.thread !== null, 'only a thread can be asked to stop')
        if (this.thread !== null) this.thread.asked = true
        return
      case 'end':
        check(this.thread !== null, 'only a thread can be ended')
        if (this.thread !== null) this.thread.ending = true
        return
      case 'set_timer':
        this.timerDueMs = this.nowMs + effect.durationMs
        return
      case 'clear_timer':
        this.timerDueMs = null
        return
      case 'alert': {
        const { state } = this.machine
        check(
          state.status === 'error' && state.retries === effect.retries,
          'an alert says whether the start is tried again',
        )
        this.alerts += 1
      }
    }
  }

  checkInvariants(): void {
    const { state } = this.machine
    const waits = this.timerDueMs !== null || this.thread?.ending === true
    check(
      (isTransient(state.status) || (state.status === 'error' && state.retries)) === waits,
      `${state.status}: what is under way has a limit, nothing else has`,
    )
    const hasThread = state.status === 'running' || state.status === 'stopping'
    check(!hasThread || this.thread !== null, `${state.status}: there is a thread`)
    const none = state.status === 'stopped' || state.status === 'error'
    check(!none || this.thread === null, `${state.status}: there is no thread`)
    const recent = this.restarts.filter((at) => this.nowMs - at < DEFAULT_LIMITS.restartWindowMs)
    check(recent.length <= DEFAULT_LIMITS.maxRestarts, 'at most five restarts within 60 seconds')
  }

  /** The thread is ready, if there is one on its way. */
  ready(): void {
    if (this.thread === null || this.thread.ready) return
    this.thread.ready = true
    this.tell({ kind: 'ready', run: this.thread.run, threadId: this.thread.run })
  }

  /** The thread ends by itself or because it was asked to. */
  endThread(isOutage = false): void {
    if (this.thread === null) return
    const { run } = this.thread
    this.thread = null
    this.tell({ kind: 'ended', run, reason: 'it ended', gone: true, isOutage })
  }

  wait(durationMs: number): void {
    this.nowMs += durationMs
    if (this.timerDueMs === null || this.timerDueMs > this.nowMs) return
    this.timerDueMs = null
    this.tell({ kind: 'timer' })
  }

  /** Nothing more is asked for, threads obey: the instance comes to rest. */
  settle(): void {
    for (let steps = 0; isTransient(this.status); steps += 1) {
      check(steps < 100, 'an instance that nobody disturbs comes to rest')
      if (this.thread?.asked === true || this.thread?.ending === true) this.endThread()
      else if (this.thread !== null) this.ready()
      else this.wait(DEFAULT_LIMITS.largestBackoffMs)
    }
  }
}

function check(condition: boolean, rule: string): void {
  if (!condition) throw new Error(rule)
}

type Step = (world: World) => void

const step: fc.Arbitrary<readonly [name: string, step: Step]> = fc.oneof(
  ...(['start', 'stop', 'restart'] as const).map((kind) =>
    fc.constant([kind, (world: World) => world.tell({ kind })] as const),
  ),
  { weight: 4, arbitrary: fc.constant(['ready', (world: World) => world.ready()] as const) },
  { weight: 4, arbitrary: fc.constant(['end', (world: World) => world.endThread()] as const) },
  { weight: 2, arbitrary: fc.constant(['outage', (world: World) => world.endThread(true)] as const) },
  {
    weight: 4,
    arbitrary: fc
      .integer({ min: 1, max: 40_000 })
      .map((ms) => [`wait ${ms}`, (world: World) => world.wait(ms)] as const),
  },
  fc.nat(30).map(
    (run) =>
      [
        `late word of ${run}`,
        (world: World) => {
          if (run >= world.machine.run) return
          world.tell({ kind: 'ended', run, reason: 'late', gone: true, isOutage: false })
          world.tell({ kind: 'ready', run, threadId: 1 })
        },
      ] as const,
  ),
)
const steps = fc.array(step, { maxLength: 120, size: 'max' })

t.test('whatever happens in whatever order, the invariants of an instance hold', async () => {
  fc.assert(
    fc.property(steps, (chosen) => {
      const world = new World()
      for (const [, act] of chosen) act(world)
      world.settle()
    }),
    { numRuns: 500 },
  )
})

t.test('a stop ends every instance, and raises no alert', async () => {
  fc.assert(
    fc.property(steps, (chosen) => {
      const world = new World()
      for (const [, act] of chosen) act(world)
      const { status } = world
      const { alerts } = world
      world.tell({ kind: 'stop' })
      world.settle()
      check(world.status === (status === 'error' ? 'error' : 'stopped'), 'it is stopped')
      check(world.alerts === alerts, 'without an alert')
    }),
    { numRuns: 300 },
  )
})

t.test('an action that the status does not allow changes nothing', async () => {
  fc.assert(
    fc.property(steps, fc.constantFrom('start' as const, 'restart' as const), (chosen, kind) => {
      const world = new World()
      for (const [, act] of chosen) act(world)
      if (allows(world.status, kind)) return
      const before = world.machine
      world.tell({ kind })
      // The supervisor refuses it before; here a restart of a stopped instance, say, must do no harm either.
      check(world.machine === before, `${kind} in ${before.state.status} changes nothing`)
    }),
  )
})

t.test('the waits before restarts grow, and the sixth breakdown within 60 seconds is an error', async (t) => {
  const world = new World()
  world.tell({ kind: 'start' })
  const waits: number[] = []
  for (let breakdown = 1; breakdown <= 5; breakdown += 1) {
    world.ready()
    world.endThread()
    waits.push((world.timerDueMs ?? 0) - world.nowMs)
    world.wait(DEFAULT_LIMITS.largestBackoffMs)
    t.equal(world.machine.restarts, breakdown)
  }
  t.same(waits, [500, 1_000, 2_000, 4_000, 8_000])
  world.ready()
  world.endThread()
  t.match(world.machine.state, { status: 'error', reason: 'it ended (5 restarts within 60 s)' })
})

t.test('a restart counts from when it began, also when its timer was late', async (t) => {
  const world = new World()
  world.tell({ kind: 'start' })
  for (const waitMs of [20_000, 10_000, 10_000, 10_000, 11_000]) {
    world.ready()
    world.endThread()
    world.wait(waitMs)
  }
  world.ready()
  world.endThread()
  t.match(world.machine.state, { status: 'error', reason: 'it ended (5 restarts within 60 s)' })
})

t.test(
  'a start that an outage prevents is tried again until it succeeds, or somebody stops it',
  async (t) => {
    const world = new World()
    world.tell({ kind: 'start' })
    world.ready()
    world.tell({ kind: 'restart' })
    world.endThread()
    const waits: number[] = []
    for (let tries = 0; tries < 50; tries += 1) {
      world.endThread(true)
      t.match(world.machine.state, { status: 'error', reason: 'it ended' })
      waits.push((world.timerDueMs ?? 0) - world.nowMs)
      world.wait(DEFAULT_LIMITS.largestBackoffMs)
    }
    t.same(waits.slice(0, 6), [500, 1_000, 2_000, 4_000, 8_000, 10_000])
    t.equal(waits.at(-1), DEFAULT_LIMITS.largestBackoffMs)
    world.ready()
    t.equal(world.status, 'running')
    t.equal(world.machine.restarts, 0, 'it never broke down')
    t.equal(world.alerts, 1)

    world.tell({ kind: 'restart' })
    world.endThread()
    world.endThread(true)
    world.tell({ kind: 'stop' })
    world.wait(DEFAULT_LIMITS.largestBackoffMs)
    t.equal(world.status, 'error', 'nothing is tried any more')
  },
)

t.test('an instance that breaks down rarely is restarted for ever', async (t) => {
  const world = new World()
  world.tell({ kind: 'start' })
  for (let breakdown = 0; breakdown < 100; breakdown += 1) {
    world.ready()
    world.wait(13_000)
    world.endThread()
    world.wait(DEFAULT_LIMITS.largestBackoffMs)
  }
  world.ready()
  t.equal(world.status, 'running')
})

t.test('restarts that each take long to fail end, too', async (t) => {
  const world = new World()
  world.tell({ kind: 'start' })
  world.ready()
  world.endThread()
  for (let tries = 0; world.status !== 'error' && tries < 20; tries += 1) {
    world.wait(DEFAULT_LIMITS.startLimitMs)
    if (world.thread?.ending === true) world.endThread()
  }
  t.match(world.machine.state, { status: 'error', reason: 'it ended (5 restarts in a row)' })
})

t.test('the actions of each status are those of the specification', async (t) => {
  t.same(ACTIONS, {
    stopped: ['start'],
    starting: [],
    running: ['stop', 'restart'],
    stopping: [],
    error: ['start', 'restart'],
  })
})
