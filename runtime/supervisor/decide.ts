import { transition, type InstanceState } from '../lifecycle.ts'
import type { SupervisorLimits } from './limits.ts'

/**
 * The supervisor's decisions, without any acting: what an instance is and what happened go in, what it is then and
 * what is to be done come out. The shell (instance.ts) carries the effects out and reports what comes of them.
 */

/** What the supervisor remembers of an instance. */
export interface Machine {
  readonly state: InstanceState
  /** The number of the newest thread; what an earlier one still reports is ignored. */
  readonly run: number
  /** Restarts after a breakdown since the process began. */
  readonly restarts: number
  /** When those within the window began, in milliseconds of the epoch. */
  readonly recentRestarts: readonly number[]
  /** Restarts since the instance was last running, or was started by somebody. */
  readonly restartsInARow: number
  /** Starts in a row that failed because of an outage. */
  readonly outages: number
}

export type SupervisorEvent =
  /** Actions. Whether the status allows one is asked before (`allows`); one that it does not changes nothing. */
  | { readonly kind: 'start' }
  | { readonly kind: 'restart' }
  /** Also of an instance that is starting: removal and shutdown do not wait for the outcome of a start. */
  | { readonly kind: 'stop' }
  | { readonly kind: 'ready'; readonly run: number; readonly threadId: number }
  | ({ readonly kind: 'ended' } & Ended)
  | { readonly kind: 'timer' }

/** Said once for each thread, as its last word. */
export interface Ended {
  readonly run: number
  readonly reason: string
  /** False when it could not be ended. */
  readonly gone: boolean
  /** It was the database that was away: the same start may succeed later. */
  readonly isOutage: boolean
}

export type Effect =
  | { readonly kind: 'spawn'; readonly run: number }
  /** Lets the thread finish what it has in hand and end. */
  | { readonly kind: 'ask_stop' }
  /** Ends the thread as it is. */
  | { readonly kind: 'end'; readonly reason: string }
  /** An instance has one timer: setting it replaces the one that runs. */
  | { readonly kind: 'set_timer'; readonly durationMs: number }
  | { readonly kind: 'clear_timer' }
  /** `retries` as the state has it. */
  | { readonly kind: 'alert'; readonly reason: string; readonly retries: boolean }

export interface Decision {
  readonly machine: Machine
  readonly effects: readonly Effect[]
}

export interface Circumstances {
  readonly now: Date
  readonly limits: SupervisorLimits
}

export function newMachine(now: Date): Machine {
  return {
    state: { status: 'stopped', since: now },
    run: 0,
    restarts: 0,
    recentRestarts: [],
    restartsInARow: 0,
    outages: 0,
  }
}

export function decide(machine: Machine, event: SupervisorEvent, circumstances: Circumstances): Decision {
  switch (event.kind) {
    case 'start':
      return decideStart(machine, circumstances)
    case 'restart':
      return decideRestart(machine, circumstances)
    case 'stop':
      return decideStop(machine, circumstances)
    case 'ready':
      return decideReady(machine, event, circumstances)
    case 'ended':
      return decideEnded(machine, event, circumstances)
    case 'timer':
      break
  }
  return decideTimer(machine, circumstances)
}

function unchanged(machine: Machine): Decision {
  return { machine, effects: [] }
}

function moved(machine: Machine, state: InstanceState, effects: readonly Effect[]): Decision {
  return { machine: { ...machine, state: transition(machine.state, state) }, effects }
}

function decideStart(machine: Machine, circumstances: Circumstances): Decision {
  const { status } = machine.state
  if (status !== 'stopped' && status !== 'error') return unchanged(machine)
  return spawnAnew(machine, circumstances)
}

function decideRestart(machine: Machine, circumstances: Circumstances): Decision {
  const { state } = machine
  if (state.status === 'error') return decideStart(machine, circumstances)
  if (state.status !== 'running') return unchanged(machine)
  return askStop(machine, 'starting', state.threadId, circumstances)
}

function decideStop(machine: Machine, circumstances: Circumstances): Decision {
  const { state } = machine
  if (state.status === 'error' && state.retries) {
    return moved(machine, { ...state, retries: false }, [{ kind: 'clear_timer' }])
  }
  if (state.status === 'stopped' || state.status === 'error') return unchanged(machine)
  if (state.status === 'running') return askStop(machine, 'stopped', state.threadId, circumstances)
  if (state.status === 'stopping') {
    // Whoever stops has the last word over a restart that is under way.
    return moved(machine, { ...state, next: 'stopped' }, [])
  }
  if (state.phase !== 'backoff') return askStop(machine, 'stopped', null, circumstances)
  return moved(machine, { status: 'stopped', since: circumstances.now }, [{ kind: 'clear_timer' }])
}

function decideReady(
  machine: Machine,
  event: { readonly run: number; readonly threadId: number },
  { now }: Circumstances,
): Decision {
  const { state } = machine
  // Too late is too late: a thread that is being ended does not run.
  if (event.run !== machine.run || state.status !== 'starting' || state.phase !== 'thread') {
    return unchanged(machine)
  }
  const running: InstanceState = { status: 'running', since: now, threadId: event.threadId }
  return moved({ ...machine, restartsInARow: 0, outages: 0 }, running, [{ kind: 'clear_timer' }])
}

function decideEnded(machine: Machine, event: Ended, circumstances: Circumstances): Decision {
  const { state } = machine
  if (event.run !== machine.run || state.status === 'stopped' || state.status === 'error') {
    return unchanged(machine)
  }
  // A second thread beside one that does not go would contend with it for port, folder and claims.
  if (!event.gone) return fail(machine, event.reason, circumstances)
  if (state.status === 'running') return recover(machine, event.reason, circumstances)
  if (state.status === 'starting') {
    if (event.isOutage) return waitForEndOfOutage(machine, event.reason, circumstances)
    return state.cause === 'breakdown'
      ? recover(machine, event.reason, circumstances)
      : fail(machine, event.reason, circumstances)
  }
  if (state.next === 'starting') return spawnAnew(machine, circumstances)
  return moved(machine, { status: 'stopped', since: circumstances.now }, [{ kind: 'clear_timer' }])
}

function decideTimer(machine: Machine, circumstances: Circumstances): Decision {
  const { state } = machine
  const { startLimitMs, stopLimitMs } = circumstances.limits
  if (state.status === 'starting' && state.phase === 'backoff') {
    // It counts from here, not from when it was decided: the timer may have been late.
    const recentRestarts = [...machine.recentRestarts, circumstances.now.getTime()]
    return spawn({ ...machine, recentRestarts }, 'breakdown', circumstances)
  }
  if (state.status === 'starting') {
    const reason = `The instance was not ready within ${seconds(startLimitMs)}`
    return moved(machine, { ...state, phase: 'ending' }, [{ kind: 'end', reason }])
  }
  if (state.status === 'stopping') {
    const reason = `The instance did not finish its work within ${seconds(stopLimitMs)}`
    return { machine, effects: [{ kind: 'end', reason }] }
  }
  if (state.status === 'error' && state.retries) return spawn(machine, 'outage', circumstances)
  return unchanged(machine)
}

/** Somebody wants it: what went wrong before does not count. */
function spawnAnew(machine: Machine, circumstances: Circumstances): Decision {
  return spawn({ ...machine, recentRestarts: [], restartsInARow: 0, outages: 0 }, 'action', circumstances)
}

function spawn(
  machine: Machine,
  cause: 'action' | 'breakdown' | 'outage',
  { now, limits }: Circumstances,
): Decision {
  const { state } = machine
  const run = machine.run + 1
  // The crash and the wait after it are one episode for who looks from outside.
  const since = state.status === 'starting' ? state.since : now
  return moved({ ...machine, run }, { status: 'starting', since, phase: 'thread', cause }, [
    { kind: 'spawn', run },
    { kind: 'set_timer', durationMs: limits.startLimitMs },
  ])
}

function askStop(
  machine: Machine,
  next: 'stopped' | 'starting',
  threadId: number | null,
  { now, limits }: Circumstances,
): Decision {
  return moved(machine, { status: 'stopping', since: now, next, threadId }, [
    { kind: 'ask_stop' },
    { kind: 'set_timer', durationMs: limits.stopLimitMs },
  ])
}

/** After a breakdown: another try after a wait, or the end of tries. */
function recover(machine: Machine, reason: string, circumstances: Circumstances): Decision {
  const { now, limits } = circumstances
  const at = now.getTime()
  // The distance, not the age: a system clock that was set back must not keep old restarts for ever.
  const recent = machine.recentRestarts.filter((then) => Math.abs(at - then) < limits.restartWindowMs)
  if (recent.length >= limits.maxRestarts) {
    const history = `${limits.maxRestarts} restarts within ${seconds(limits.restartWindowMs)}`
    return fail(machine, `${reason} (${history})`, circumstances)
  }
  if (machine.restartsInARow >= limits.maxRestarts) {
    return fail(machine, `${reason} (${limits.maxRestarts} restarts in a row)`, circumstances)
  }
  const backoffMs = Math.min(limits.firstBackoffMs * 2 ** recent.length, limits.largestBackoffMs)
  const since = machine.state.status === 'starting' ? machine.state.since : now
  return moved(
    {
      ...machine,
      restarts: machine.restarts + 1,
      recentRestarts: recent,
      restartsInARow: machine.restartsInARow + 1,
    },
    { status: 'starting', since, phase: 'backoff', cause: 'breakdown' },
    [{ kind: 'set_timer', durationMs: backoffMs }],
  )
}

/**
 * The instance did nothing wrong, so the tries have no end, and none counts as a restart. Whoever waits for the outcome
 * is told at once, and an outage is one alert, however many tries it takes.
 */
function waitForEndOfOutage(machine: Machine, reason: string, { now, limits }: Circumstances): Decision {
  const durationMs = Math.min(limits.firstBackoffMs * 2 ** machine.outages, limits.largestBackoffMs)
  return moved(
    { ...machine, outages: machine.outages + 1 },
    { status: 'error', since: now, reason, retries: true },
    [
      { kind: 'set_timer', durationMs },
      ...(machine.outages === 0 ? [{ kind: 'alert', reason, retries: true } as const] : []),
    ],
  )
}

function fail(machine: Machine, reason: string, { now }: Circumstances): Decision {
  return moved(machine, { status: 'error', since: now, reason, retries: false }, [
    { kind: 'clear_timer' },
    { kind: 'alert', reason, retries: false },
  ])
}

function seconds(durationMs: number): string {
  return `${durationMs / 1000} s`
}
