/**
 * The states of a plugin instance and the one table of its transitions (specification, 2.12 and 3.4).
 *
 * stopped → starting → running → stopping → stopped. A start that fails and an instance that breaks down too often
 * end in `error`, from which it can be started again. A running instance whose thread ends by itself is `starting`
 * again, first in the phase `backoff`, until its next thread is ready. A restart goes from stopping to starting, so
 * that nobody can step in between. Where it was only the database that was away, an instance in `error` is started
 * again by itself.
 */
export type InstanceState =
  | { readonly status: 'stopped'; readonly since: Date }
  | {
      readonly status: 'starting'
      readonly since: Date
      /**
       * `thread`: a thread is on its way to being ready. `ending`: it took too long and is being ended. `backoff`:
       * there is none, and a timer runs.
       */
      readonly phase: 'thread' | 'ending' | 'backoff'
      /** Who wants it: somebody who waits for the outcome, or the supervisor after a breakdown or an outage. */
      readonly cause: 'action' | 'breakdown' | 'outage'
    }
  | { readonly status: 'running'; readonly since: Date; readonly threadId: number }
  | {
      readonly status: 'stopping'
      readonly since: Date
      /** What comes when the thread is gone. */
      readonly next: 'stopped' | 'starting'
      /** Null when the instance was not running yet. */
      readonly threadId: number | null
    }
  | {
      readonly status: 'error'
      readonly since: Date
      readonly reason: string
      /** A timer runs: what was missing may be back, and the start is tried again. */
      readonly retries: boolean
    }

export type InstanceStatus = InstanceState['status']
export type InstanceAction = 'start' | 'stop' | 'restart'

const TRANSITIONS = {
  stopped: ['starting'],
  starting: ['starting', 'running', 'stopping', 'stopped', 'error'],
  running: ['stopping', 'starting', 'error'],
  stopping: ['stopping', 'stopped', 'starting', 'error'],
  error: ['starting', 'error'],
} as const satisfies Record<InstanceStatus, readonly InstanceStatus[]>

/** The actions a client may ask for in each status (specification, 3.4). */
export const ACTIONS = {
  stopped: ['start'],
  starting: [],
  running: ['stop', 'restart'],
  stopping: [],
  error: ['start', 'restart'],
} as const satisfies Record<InstanceStatus, readonly InstanceAction[]>

export function allows(status: InstanceStatus, action: InstanceAction): boolean {
  const allowed: readonly InstanceAction[] = ACTIONS[status]
  return allowed.includes(action)
}

/** Whether the instance is on its way to another state by itself. */
export function isTransient(status: InstanceStatus): boolean {
  return status === 'starting' || status === 'stopping'
}

/** The one function that moves an instance from state to state. A move outside the table is a defect and throws. */
export function transition(from: InstanceState, to: InstanceState): InstanceState {
  const allowed: readonly InstanceStatus[] = TRANSITIONS[from.status]
  if (!allowed.includes(to.status))
    throw new Error(`An instance cannot move from ${from.status} to ${to.status}`)
  return to
}
