import type { ActorContext, RunningActor } from '../../../runtime/thread/actor.ts'

export type TargetOrder =
  | { readonly kind: 'counts' }
  | { readonly kind: 'settle'; readonly count: number }
  | { readonly kind: 'drained' }
  | { readonly kind: 'settle_by_itself' }
  | { readonly kind: 'break_down' }

export interface TargetCounts {
  readonly announced: number
  readonly settled: number
  /** The most that was announced and not settled. */
  readonly mostWaiting: number
}

export interface TargetSettings {
  /** How many deliveries were announced, for who cannot ask. */
  readonly announced?: SharedArrayBuffer
  /** Works on nothing; without any handler when false. */
  readonly listens?: boolean
}

/** A target that settles when the test orders it, or by itself as fast as its event loop turns. */
export default async function start(context: ActorContext<TargetSettings>): Promise<RunningActor> {
  let counts: TargetCounts = { announced: 0, settled: 0, mostWaiting: 0 }
  let byItself = false
  const shared = context.settings.announced === undefined ? null : new Int32Array(context.settings.announced)

  const settle = (count: number): void => {
    counts = { ...counts, settled: counts.settled + count }
    context.settled(count)
  }
  if (context.settings.listens !== false) {
    context.onAnnouncement((count) => {
      const announced = counts.announced + count
      counts = { ...counts, announced, mostWaiting: Math.max(counts.mostWaiting, announced - counts.settled) }
      if (shared !== null) {
        Atomics.store(shared, 0, announced)
        Atomics.notify(shared, 0)
      }
      if (byItself) setImmediate(() => settle(count))
    })
  }
  return {
    stop: () => Promise.resolve(),
    handle: async (request) => {
      const order = request as TargetOrder
      switch (order.kind) {
        case 'counts':
          return counts
        case 'settle':
          return settle(order.count)
        case 'drained':
          return context.drained()
        case 'settle_by_itself':
          byItself = true
          return settle(counts.announced - counts.settled)
        case 'break_down':
          return setImmediate(() => {
            throw new Error('the target is broken')
          }).hasRef()
      }
    },
  }
}
