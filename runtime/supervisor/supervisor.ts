import type { RequestOptions } from '../channel/requests.ts'
import type { Clock } from '../clock.ts'
import { WaybillError } from '../errors.ts'
import { ACTIONS, allows, type InstanceAction } from '../lifecycle.ts'
import type { Log } from '../log.ts'
import { Instance } from './instance.ts'
import { Introductions } from './introductions.ts'
import { DEFAULT_LIMITS, type SupervisorLimits } from './limits.ts'
import type {
  InstanceIdentity,
  InstanceSpec,
  PluginFailedAlert,
  ServiceInstance,
} from './service-instance.ts'

export interface SupervisorOptions extends Partial<SupervisorLimits> {
  /** Name of this node. */
  readonly node: string
  /** Its level is that of all threads. */
  readonly log: Log
  readonly clock: Clock
  /** Handed to every actor as it is; must be clonable. */
  readonly process: unknown
  /**
   * Reads an instance's settings when it starts. Null: it does not exist or is not enabled. A start that it fails with
   * DATABASE_UNAVAILABLE is tried again until it succeeds or fails for another reason.
   */
  readonly loadSpec: (type: string, name: string) => Promise<InstanceSpec | null>
  readonly onAlert: (alert: PluginFailedAlert) => void
}

/** What a shutdown may shorten. */
type ShutdownLimits = { -readonly [Name in 'stopLimitMs' | 'endLimitMs']: SupervisorLimits[Name] }

/** Runs the plugin instances of this process, each in a thread of its own. */
export class Supervisor {
  readonly #instances = new Map<string, Instance>()
  /** Those that are to be listed no longer once they have stopped, with what is listed instead. */
  readonly #leaving = new Map<Instance, InstanceIdentity | null>()
  readonly #listeners = new Set<(instance: ServiceInstance) => void>()
  readonly #announcedListeners = new Set<(target: string) => void>()
  readonly #surroundings
  /** Each instance and each thread holds this very object. */
  readonly #limits: SupervisorLimits & ShutdownLimits
  #hasLostThreads = false
  #closing = false

  constructor(options: SupervisorOptions) {
    const { node, log, clock, process, loadSpec, onAlert, ...limits } = options
    this.#limits = { ...DEFAULT_LIMITS, ...limits }
    this.#surroundings = {
      node,
      log,
      clock,
      process,
      loadSpec,
      limits: this.#limits,
      introductions: new Introductions(),
      onAlert: (alert: PluginFailedAlert) => guarded(log, () => onAlert(alert)),
      onChange: (instance: ServiceInstance) => {
        for (const listener of this.#listeners) guarded(log, () => listener(instance))
      },
      onLost: () => {
        this.#hasLostThreads = true
      },
      onAnnounced: (target: string) => {
        for (const listener of this.#announcedListeners) guarded(log, () => listener(target))
      },
    }
  }

  /** Whether there is a thread that could not be ended, and so may keep the process from ending. */
  get hasLostThreads(): boolean {
    return this.#hasLostThreads
  }

  /** Sorted by type and name. */
  list(): ServiceInstance[] {
    return [...this.#instances.values()]
      .map((instance) => instance.view())
      .toSorted((a, b) => compare(a.type, b.type) || compare(a.name, b.name))
  }

  find(type: string, name: string): ServiceInstance | null {
    return this.#instances.get(keyOf(type, name))?.view() ?? null
  }

  /** Whether somebody has tried to start the instance since it is listed. */
  hasStarted(type: string, name: string): boolean {
    return this.#instances.get(keyOf(type, name))?.hasStarted ?? false
  }

  /** Called with the instance after each change of its state. The answer ends it. */
  onChange(listener: (instance: ServiceInstance) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * Lists a saved and enabled instance, `stopped`. One that is listed stays as it is, unless it is of another generation:
   * that one is stopped, and listed until then.
   */
  configure(identity: InstanceIdentity): void {
    const key = keyOf(identity.type, identity.name)
    const known = this.#instances.get(key)
    if (known === undefined) this.#instances.set(key, new Instance(identity, this.#surroundings))
    else if (known.generation === identity.generation) {
      known.role = identity.role
      this.#leaving.delete(known)
    } else void this.#replace(known, identity)
  }

  /** Which generation of the instance is listed; null when it is not. */
  generationOf(type: string, name: string): string | null {
    const instance = this.#instances.get(keyOf(type, name))
    return instance === undefined || this.#leaving.get(instance) === null ? null : instance.generation
  }

  /** Stops the instance and lists it no longer; of one that is not listed there is nothing to do. */
  async remove(type: string, name: string): Promise<void> {
    const instance = this.#instances.get(keyOf(type, name))
    if (instance === undefined) return
    await this.#replace(instance, null)
  }

  /**
   * Called when deliveries were made for a target, which may run in another process, too; gathered, not for each of
   * them. The answer ends it.
   */
  onAnnounced(listener: (target: string) => void): () => void {
    this.#announcedListeners.add(listener)
    return () => this.#announcedListeners.delete(listener)
  }

  /** Starts all stopped instances side by side. One that fails is in `error`, and the others go on. */
  async startAll(): Promise<void> {
    const stopped = [...this.#instances.values()].filter(({ status }) => status === 'stopped')
    await Promise.allSettled(stopped.map(({ type, name }) => this.start(type, name)))
  }

  /**
   * Actions resolve when they are complete, with the instance in its new state (specification, 3.4). They throw
   * NOT_FOUND, INVALID_STATE with `status` and `allowed` in its details, or START_FAILED with the reason.
   */
  start(type: string, name: string): Promise<ServiceInstance> {
    return this.#perform('start', type, name)
  }

  stop(type: string, name: string): Promise<ServiceInstance> {
    return this.#perform('stop', type, name)
  }

  restart(type: string, name: string): Promise<ServiceInstance> {
    return this.#perform('restart', type, name)
  }

  /**
   * Asks a running instance; its actor's `handle` answers. Throws NOT_FOUND, INSTANCE_UNAVAILABLE (not running, ended
   * meanwhile or no answer in time), the signal's reason, or what `handle` threw.
   */
  async request(type: string, name: string, body: unknown, options: RequestOptions): Promise<unknown> {
    return this.#listed(type, name).request(body, options)
  }

  /** Tells a target of deliveries that no source of this process announces, wherever it runs. */
  announce(target: string, count: number): void {
    this.announceHere(target, count)
    this.#surroundings.onAnnounced(target)
  }

  /** The same to the targets of this process alone. Nothing happens when there is none that runs. */
  announceHere(target: string, count: number): void {
    for (const instance of this.#instances.values()) if (instance.name === target) instance.announce(count)
  }

  /** Tells every running target to look: announcements of others may have been lost. */
  announceToAll(): void {
    for (const instance of this.#instances.values()) if (instance.role === 'target') instance.announce(1)
  }

  /**
   * Tells the sources whether they may take anything in, and lists why they do not. To be told again and again: an
   * instance that is new knows of no earlier word.
   */
  holdBack(held: { readonly all: string | null; readonly bySource: ReadonlyMap<string, string> }): void {
    for (const instance of this.#instances.values())
      instance.holdBack(held.all ?? held.bySource.get(instance.name) ?? null)
  }

  /**
   * Stops everything, also what is starting or waits for a restart. Nothing can be started any more.
   *
   * @param limits how long work in hand may take, and how long the end of a thread, where that is less than always.
   */
  async shutdown(limits: Partial<ShutdownLimits> = {}): Promise<void> {
    Object.assign(this.#limits, limits)
    this.#closing = true
    const instances = [...this.#instances.values()]
    for (const instance of instances) instance.tell({ kind: 'stop' })
    await Promise.all(instances.map((instance) => instance.settled()))
  }

  /** Stops the instance; then it is listed no longer, or this one instead, unless it was configured again meanwhile. */
  async #replace(instance: Instance, successor: InstanceIdentity | null): Promise<void> {
    this.#leaving.set(instance, successor)
    instance.tell({ kind: 'stop' })
    await instance.settled()
    const next = this.#leaving.get(instance)
    if (next === undefined) return
    this.#leaving.delete(instance)
    const key = keyOf(instance.type, instance.name)
    if (next === null) this.#instances.delete(key)
    else this.#instances.set(key, new Instance(next, this.#surroundings))
  }

  async #perform(action: InstanceAction, type: string, name: string): Promise<ServiceInstance> {
    const instance = this.#listed(type, name)
    const { status } = instance
    if (this.#closing) throw refusal(`${type} ${name} cannot ${action}: the process is stopping`, status, [])
    if (!allows(status, action)) {
      throw refusal(`${type} ${name} is ${status} and cannot ${action}`, status, ACTIONS[status])
    }
    instance.tell({ kind: action })
    const outcome = await instance.settled()
    if (action === 'stop' || outcome.status === 'running') return outcome
    if (outcome.error !== null) throw new WaybillError('START_FAILED', outcome.error)
    throw refusal(`${type} ${name} was stopped while it was starting`, outcome.status, outcome.actions)
  }

  #listed(type: string, name: string): Instance {
    const instance = this.#instances.get(keyOf(type, name))
    if (instance === undefined || this.#leaving.get(instance) === null) {
      throw new WaybillError('NOT_FOUND', 'Service instance not found')
    }
    return instance
  }
}

function refusal(message: string, status: string, allowed: readonly InstanceAction[]): WaybillError {
  return new WaybillError('INVALID_STATE', message, { status, allowed })
}

function keyOf(type: string, name: string): string {
  return `${type}:${name}`
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** What a listener throws is its own defect and must not stop the supervisor. */
function guarded(log: Log, action: () => void): void {
  try {
    action()
  } catch (error) {
    log.error({ err: error }, 'a listener of the supervisor failed')
  }
}
