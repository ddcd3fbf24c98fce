import type { RequestOptions } from '../channel/requests.ts'
import type { Clock } from '../clock.ts'
import { reasonOf, WaybillError } from '../errors.ts'
import { ACTIONS, isTransient, type InstanceStatus } from '../lifecycle.ts'
import type { Log } from '../log.ts'
import type { PluginRole } from '../module.ts'
import { Thread, type ThreadEnd } from '../thread/spawn.ts'
import { decide, newMachine, type Effect, type SupervisorEvent } from './decide.ts'
import type { Introductions } from './introductions.ts'
import type { SupervisorLimits } from './limits.ts'
import type {
  InstanceIdentity,
  InstanceSpec,
  PluginFailedAlert,
  ServiceInstance,
} from './service-instance.ts'

/** What all instances of a supervisor share. */
export interface Surroundings {
  readonly node: string
  readonly log: Log
  readonly clock: Clock
  readonly process: unknown
  readonly limits: SupervisorLimits
  readonly introductions: Introductions
  readonly loadSpec: (type: string, name: string) => Promise<InstanceSpec | null>
  readonly onAlert: (alert: PluginFailedAlert) => void
  readonly onChange: (instance: ServiceInstance) => void
  /** A source has made deliveries for a target. */
  readonly onAnnounced: (target: string) => void
  /** A thread could not be ended. */
  readonly onLost: () => void
}

/** One instance: holds what decide.ts says about it and carries the effects out. */
export class Instance {
  readonly type: string
  readonly name: string
  role: PluginRole
  /** Of the configuration that is listed, or that it was started with since. */
  generation: string
  readonly #surroundings: Surroundings
  readonly #log: Log
  #machine
  #thread: Thread | null = null
  #cancelTimer: (() => void) | null = null
  #waiting: ((instance: ServiceInstance) => void)[] = []
  #heldBack: string | null = null
  /** Why it takes nothing in by its own word. */
  #condition: string | null = null

  constructor({ type, name, role, generation }: InstanceIdentity, surroundings: Surroundings) {
    this.type = type
    this.name = name
    this.role = role
    this.generation = generation
    this.#surroundings = surroundings
    this.#log = surroundings.log.child({ type, name })
    this.#machine = newMachine(surroundings.clock.now())
  }

  get status(): InstanceStatus {
    return this.#machine.state.status
  }

  get hasStarted(): boolean {
    return this.#machine.run > 0
  }

  view(): ServiceInstance {
    const { state, restarts } = this.#machine
    return {
      type: this.type,
      name: this.name,
      status: state.status,
      error: state.status === 'error' ? state.reason : null,
      controllable: true,
      state_since: state.since,
      actions: ACTIONS[state.status],
      restarts,
      pid_thread: state.status === 'running' || state.status === 'stopping' ? state.threadId : null,
      node: this.#surroundings.node,
      held_back:
        state.status === 'running' && this.role === 'source' ? (this.#heldBack ?? this.#condition) : null,
    }
  }

  /** The instance as it is when it next is neither starting nor stopping; at once when it is neither now. */
  settled(): Promise<ServiceInstance> {
    if (!isTransient(this.status)) return Promise.resolve(this.view())
    const { promise, resolve } = Promise.withResolvers<ServiceInstance>()
    this.#waiting.push(resolve)
    return promise
  }

  /** The one place in which the instance changes. */
  tell(event: SupervisorEvent): void {
    const { clock, limits } = this.#surroundings
    const before = this.#machine.state
    const { machine, effects } = decide(this.#machine, event, { now: clock.now(), limits })
    this.#machine = machine
    if (machine.state !== before) this.#meetOrLeave(before.status)
    for (const effect of effects) this.#act(effect)
    if (machine.state !== before) this.#publish(before.status)
  }

  async request(body: unknown, options: RequestOptions): Promise<unknown> {
    if (this.#thread === null || this.status !== 'running') {
      throw new WaybillError('INSTANCE_UNAVAILABLE', `${this.type} ${this.name} is ${this.status}`)
    }
    return this.#thread.request(body, options)
  }

  /** A hint to the thread; nothing happens when the instance does not run. */
  announce(count: number): void {
    if (this.status === 'running') this.#thread?.announce(count)
  }

  /** Why a source is to take nothing in, or null; of another instance nothing is held back. */
  holdBack(reason: string | null): void {
    if (this.role !== 'source' || reason === this.#heldBack) return
    this.#heldBack = reason
    this.#thread?.holdBack(reason)
    if (this.status !== 'running') return
    this.#log.info({ reason }, reason === null ? 'takes in again' : 'takes nothing in')
    this.#surroundings.onChange(this.view())
  }

  #act(effect: Effect): void {
    switch (effect.kind) {
      case 'spawn':
        // The one before has ended: a stop while the settings are read must not be told to it.
        this.#thread = null
        this.#condition = null
        void this.#spawn(effect.run)
        return
      case 'ask_stop':
        if (this.#thread === null) this.#endWithoutThread('The instance was stopped')
        else this.#thread.stop()
        return
      case 'end':
        if (this.#thread === null) this.#endWithoutThread(effect.reason)
        else this.#thread.end(effect.reason)
        return
      case 'set_timer':
        this.#cancelTimer?.()
        this.#cancelTimer = this.#surroundings.clock.after(effect.durationMs, () =>
          this.tell({ kind: 'timer' }),
        )
        return
      case 'clear_timer':
        this.#cancelTimer?.()
        this.#cancelTimer = null
        return
      case 'alert':
        this.#alert(effect)
        return
    }
  }

  async #spawn(run: number): Promise<void> {
    try {
      // Read anew for each thread, so that a saved change takes effect.
      const spec = await this.#surroundings.loadSpec(this.type, this.name)
      const { state } = this.#machine
      // Stopped or given up meanwhile: its end was told then.
      if (this.#machine.run !== run || state.status !== 'starting') return
      if (spec === null) throw new Error('The instance is not configured, or not enabled')
      this.#thread = this.#newThread(run, spec)
      this.generation = spec.generation
    } catch (error) {
      const isOutage = error instanceof WaybillError && error.code === 'DATABASE_UNAVAILABLE'
      if (isOutage) this.#log.warn({ reason: reasonOf(error.cause) }, 'the settings cannot be read now')
      this.#noteEnd(run, { reason: reasonOf(error), stack: null, gone: true, isOutage })
    }
  }

  #newThread(run: number, spec: InstanceSpec): Thread {
    const { node, log, clock, limits, process, introductions } = this.#surroundings
    const thread: Thread = new Thread({
      birth: {
        type: this.type,
        name: this.name,
        node,
        generation: spec.generation,
        actor: spec.actor.href,
        settings: spec.settings,
        process,
        logLevel: log.level,
        heartbeatMs: limits.heartbeatMs,
        creditWindow: limits.creditWindow,
        heldBack: this.role === 'source' ? this.#heldBack : null,
      },
      clock,
      limits,
      onReady: (threadId) => this.tell({ kind: 'ready', run, threadId }),
      onAnnounced: this.#surroundings.onAnnounced,
      onCondition: (text) => this.#noteCondition(run, text),
      onSeek: (target) => introductions.seek({ name: this.name, thread }, target),
      onEnd: (end) => {
        introductions.forget(thread)
        if (!end.gone) this.#surroundings.onLost()
        this.#noteEnd(run, end)
      },
    })
    return thread
  }

  #noteCondition(run: number, text: string | null): void {
    if (run !== this.#machine.run) return
    this.#condition = text
    if (this.status === 'running') this.#surroundings.onChange(this.view())
  }

  /** Not at once: the effects of the decision that led here come first. */
  #endWithoutThread(reason: string): void {
    const { run } = this.#machine
    queueMicrotask(() => this.#noteEnd(run, { reason, stack: null, gone: true, isOutage: false }))
  }

  #noteEnd(run: number, { reason, stack, gone, isOutage }: ThreadEnd): void {
    if (run !== this.#machine.run) return
    if (this.status === 'stopping') this.#log.debug({ reason }, 'the thread ended')
    else this.#log.error({ reason, ...(stack === null ? {} : { stack }) }, 'the instance broke down')
    this.tell({ kind: 'ended', run, reason, gone, isOutage })
  }

  /** A running target is introduced to its sources, before anybody can learn that it runs. */
  #meetOrLeave(before: InstanceStatus): void {
    if (this.#thread === null || this.role === 'source') return
    const acquaintance = { name: this.name, thread: this.#thread }
    if (this.status === 'running') this.#surroundings.introductions.arrive(acquaintance)
    else if (before === 'running') this.#surroundings.introductions.leave(acquaintance)
  }

  #publish(before: InstanceStatus): void {
    const instance = this.view()
    if (before !== instance.status) this.#log.info({ from: before, to: instance.status }, 'instance')
    this.#surroundings.onChange(instance)
    if (isTransient(instance.status)) return
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve(instance)
  }

  #alert({ reason, retries }: Extract<Effect, { kind: 'alert' }>): void {
    this.#surroundings.onAlert({ code: 'plugin_failed', type: this.type, name: this.name, reason, retries })
  }
}
