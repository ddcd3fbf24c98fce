import { execFileSync } from 'node:child_process'
import type { ActorContext, RunningActor } from '../../../runtime/thread/actor.ts'

/** What a test may ask of the instance. */
export type Order =
  | { readonly kind: 'echo'; readonly value: unknown }
  | { readonly kind: 'facts' }
  | { readonly kind: 'log' }
  | { readonly kind: 'never_answer' }
  | { readonly kind: 'was_cancelled' }
  | { readonly kind: 'answer_what_cannot_be_cloned' }
  | { readonly kind: 'throw'; readonly message: string }
  | { readonly kind: 'throw_later'; readonly message: string }
  | { readonly kind: 'reject_unhandled'; readonly message: string }
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'fill_heap' }
  | { readonly kind: 'loop' }
  /** Stands still outside of JavaScript, from when the file `mark` is there until it is gone. */
  | { readonly kind: 'block_natively'; readonly mark: string }
  | { readonly kind: 'fail'; readonly message: string }

export interface ObedientSettings {
  /** Seen by `facts`. */
  readonly label?: string
  /** Default: it resolves. */
  readonly start?: 'fail' | 'never' | 'until_stopped' | 'fail_after_first'
  readonly stop?: 'fail' | 'never'
  /** Counts starts of all threads that share it. */
  readonly starts?: SharedArrayBuffer
  /** Set to 1 when a stop is done in order. */
  readonly stopped?: SharedArrayBuffer
}

/** Bounded, so that a test that is killed leaves nothing behind for long. */
const BLOCK = ': > "$0"; n=0; while [ -e "$0" ] && [ $n -lt 3000 ]; do sleep 0.05; n=$((n + 1)); done'

/** Does what the test orders, good and bad. */
export default async function start(context: ActorContext<ObedientSettings>): Promise<RunningActor> {
  const { settings } = context
  const started = settings.starts === undefined ? 0 : Atomics.add(new Int32Array(settings.starts), 0, 1)
  if (settings.start === 'fail') throw new Error('port 10080 is in use')
  if (settings.start === 'fail_after_first' && started > 0) throw new Error('the folder is gone')
  if (settings.start === 'never') await new Promise(() => undefined)
  if (settings.start === 'until_stopped') {
    await new Promise((resolve) => context.signal.addEventListener('abort', resolve))
  }
  let cancelled = false
  return {
    stop: async () => {
      if (settings.stop === 'fail') throw new Error('the folder cannot be left')
      if (settings.stop === 'never') await new Promise(() => undefined)
      if (settings.stopped !== undefined) Atomics.store(new Int32Array(settings.stopped), 0, 1)
    },
    handle: async (request, signal) => {
      signal.addEventListener('abort', () => (cancelled = true))
      const order = request as Order
      if (order.kind === 'was_cancelled') return cancelled
      return obey(order, context)
    },
  }
}

async function obey(order: Order, context: ActorContext<ObedientSettings>): Promise<unknown> {
  switch (order.kind) {
    case 'echo':
      return order.value
    case 'facts':
      return {
        type: context.type,
        name: context.name,
        node: context.node,
        label: context.settings.label,
        process: context.process,
      }
    case 'log':
      context.log.fatal('said by the thread')
      return null
    case 'answer_what_cannot_be_cloned':
      return () => undefined
    case 'throw':
      throw new Error(order.message)
    case 'throw_later':
      setImmediate(() => {
        throw new Error(order.message)
      })
      return null
    case 'reject_unhandled':
      void Promise.reject(new Error(order.message))
      return null
    case 'exit':
      process.exit(order.code)
      return null
    case 'fill_heap':
      return fillHeap()
    case 'loop':
      for (;;) context.clock.now()
    case 'block_natively':
      execFileSync('sh', ['-c', BLOCK, order.mark])
      return null
    case 'fail':
      context.fail(new Error(order.message))
      return null
    case 'never_answer':
    case 'was_cancelled':
      return new Promise(() => undefined)
  }
}

function fillHeap(): number {
  const kept: object[] = []
  for (;;) kept.push({ entry: [kept.length, kept.length + 1] })
}
