import fc from 'fast-check'
import t from 'tap'
import { CreditWindow, Debts } from '../../../runtime/channel/credit.ts'

type Step =
  | { readonly kind: 'announce'; readonly source: number; readonly count: number }
  /** The oldest announcement, or credit, that is on its way between the source and the target arrives. */
  | { readonly kind: 'deliver'; readonly source: number }
  | { readonly kind: 'credit'; readonly source: number }
  | { readonly kind: 'settle'; readonly count: number }
  | { readonly kind: 'drain' }
  | { readonly kind: 'reconnect'; readonly source: number }

const SOURCES = 3
const source = fc.nat(SOURCES - 1)
const count = fc.integer({ min: 1, max: 30 })
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('announce' as const), source, count }),
  fc.record({ kind: fc.constant('deliver' as const), source }),
  fc.record({ kind: fc.constant('credit' as const), source }),
  fc.record({ kind: fc.constant('settle' as const), count }),
  fc.record({ kind: fc.constant('drain' as const) }),
  fc.record({ kind: fc.constant('reconnect' as const), source }),
)

/** One channel with what is on its way in both directions, in order. */
class Channel {
  readonly window: CreditWindow
  readonly announcements: number[] = []
  readonly credits: number[] = []

  constructor(limit: number) {
    this.window = new CreditWindow(limit)
  }
}

const sum = (counts: readonly number[]): number => counts.reduce((total, each) => total + each, 0)

/** Three sources, a target, and messages that take their time. */
class World {
  readonly channels: Channel[]
  readonly debts = new Debts<Channel>()
  readonly #limit: number

  constructor(limit: number) {
    this.#limit = limit
    this.channels = Array.from({ length: SOURCES }, () => new Channel(limit))
  }

  take(step: Step): void {
    const channel = this.channels['source' in step ? step.source : 0]
    if (channel === undefined) return
    switch (step.kind) {
      case 'announce': {
        const taken = channel.window.take(step.count)
        if (taken > 0) channel.announcements.push(taken)
        return
      }
      case 'deliver': {
        const announced = channel.announcements.shift()
        if (announced !== undefined) this.debts.owe(channel, announced)
        return
      }
      case 'credit': {
        const credit = channel.credits.shift()
        if (credit !== undefined) channel.window.giveBack(credit)
        return
      }
      case 'settle':
        return this.#repay(step.count)
      case 'drain':
        return this.#repay(this.debts.total)
      case 'reconnect':
        this.debts.forget(channel)
        this.channels[step.source] = new Channel(this.#limit)
    }
  }

  #repay(count: number): void {
    for (const [channel, share] of this.debts.repay(count)) channel.credits.push(share)
  }

  onTheirWay(): number {
    return sum(this.channels.flatMap(({ announcements, credits }) => [...announcements, ...credits]))
  }
}

t.test('credit is neither lost nor made: outstanding is what is owed and what is on its way', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(step, { maxLength: 200 }), (limit, steps) => {
      const world = new World(limit)
      for (const each of steps) {
        world.take(each)
        const outstanding = world.channels.map(({ window }) => window.outstanding)
        if (outstanding.some((taken) => taken < 0 || taken > limit)) return false
        if (sum(outstanding) !== world.debts.total + world.onTheirWay()) return false
      }
      return true
    }),
  )
})

t.test('after a look that finds nothing waiting, every source has its whole window again', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(step, { maxLength: 100 }), (limit, steps) => {
      const world = new World(limit)
      for (const each of steps) world.take(each)
      const arriveAll = (kind: 'deliver' | 'credit'): void => {
        for (let source = 0; source < SOURCES; source += 1) {
          for (let left = 0; left < steps.length * SOURCES; left += 1) world.take({ kind, source })
        }
      }
      arriveAll('deliver')
      world.take({ kind: 'drain' })
      arriveAll('credit')
      return world.channels.every(({ window }) => window.outstanding === 0)
    }),
  )
})

t.test('debts are repaid in the order in which they were made', async (t) => {
  const debts = new Debts<string>()
  debts.owe('a', 2)
  debts.owe('b', 1)
  debts.owe('a', 1)
  t.same(
    [...debts.repay(3)],
    [
      ['a', 2],
      ['b', 1],
    ],
  )
  t.same([...debts.repay(5)], [['a', 1]], 'never more than is owed')
  t.same([...debts.repay(1)], [])
})

t.test('a window without room is refused', async (t) => {
  for (const limit of [0, -1, 1.5, Number.NaN]) t.throws(() => new CreditWindow(limit), RangeError)
})
