import type { ActorContext, RunningActor } from '../../../runtime/thread/actor.ts'

export type SourceOrder =
  /** Announces `count` deliveries `times` times, each after the one before. The answer comes at once. */
  | { readonly kind: 'announce'; readonly target: string; readonly count: number; readonly times: number }
  /** How many announcements have resolved. */
  | { readonly kind: 'told' }
  | { readonly kind: 'break_down' }

/** A source that announces what the test orders. Its stop waits until nothing more is announced. */
export default async function start(context: ActorContext): Promise<RunningActor> {
  let told = 0
  const working = new Set<Promise<void>>()
  const announce = async (target: string, count: number, times: number): Promise<void> => {
    for (let time = 0; time < times && !context.signal.aborted; time += 1) {
      await context.announce(target, count)
      told += 1
      // As a source that works: its event loop turns between two announcements.
      if (time % 64 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
  }
  return {
    stop: async () => {
      await Promise.all(working)
    },
    handle: async (request) => {
      const order = request as SourceOrder
      switch (order.kind) {
        case 'announce':
          working.add(announce(order.target, order.count, order.times))
          return null
        case 'told':
          return told
        case 'break_down':
          return setImmediate(() => {
            throw new Error('the source is broken')
          }).hasRef()
      }
    },
  }
}
