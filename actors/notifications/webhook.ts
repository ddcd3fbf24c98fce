import type { RunningActor } from '../../runtime/thread/actor.ts'

/** A `notification-webhook` that said it runs would let an operator wait for alerts that never come. */
export default async function start(): Promise<RunningActor> {
  throw new Error(
    'This version keeps the configuration of a notification-webhook and sends no notifications yet',
  )
}
