import { systemClock } from '../../runtime/clock.ts'
import { createLog } from '../../runtime/log.ts'
import type { PluginRole } from '../../runtime/module.ts'
import type { SupervisorLimits } from '../../runtime/supervisor/limits.ts'
import type {
  InstanceSpec,
  PluginFailedAlert,
  ServiceInstance,
} from '../../runtime/supervisor/service-instance.ts'
import { Supervisor, type SupervisorOptions } from '../../runtime/supervisor/supervisor.ts'
import type { Order } from './actors/obedient.ts'

interface Teardown {
  readonly teardown: (action: () => Promise<void>) => unknown
}

export interface SavedInstance {
  readonly name: string
  /** Default `obedient`. */
  readonly actor?: 'obedient' | 'source' | 'target' | 'port-holder' | 'no-default' | 'missing'
  /** Default `target`. */
  readonly role?: PluginRole
  /** Default `1`. */
  readonly generation?: string
  readonly settings?: unknown
}

/** Longer than anything takes on the busiest machine: what a test waits for comes, or is broken. */
const PATIENCE_MS = 120_000
const PATIENT: Partial<SupervisorLimits> = {
  startLimitMs: PATIENCE_MS,
  stopLimitMs: PATIENCE_MS,
  endLimitMs: PATIENCE_MS,
  silenceLimitMs: PATIENCE_MS,
  restartWindowMs: 10 * PATIENCE_MS,
}

/** A supervisor with configurations that the test may change. The type of an instance is its actor. */
export class TestSupervisor {
  readonly supervisor: Supervisor
  readonly alerts: PluginFailedAlert[] = []
  readonly #saved = new Map<string, InstanceSpec>()

  constructor(t: Teardown, options: Partial<SupervisorLimits> & Partial<SupervisorOptions> = {}) {
    this.supervisor = new Supervisor({
      node: 'node-1',
      log: createLog(process.env['LOG_LEVEL'] ?? 'silent'),
      clock: systemClock,
      process: { databaseUrl: 'postgres://nowhere' },
      loadSpec: (_type, name) => Promise.resolve(this.#saved.get(name) ?? null),
      onAlert: (alert) => this.alerts.push(alert),
      firstBackoffMs: 1,
      largestBackoffMs: 4,
      ...PATIENT,
      ...options,
    })
    t.teardown(() => this.supervisor.shutdown())
  }

  /** Saves a configuration and lists its instance. */
  save(instance: SavedInstance): void {
    const { type, name, role, generation } = this.replace(instance)
    this.supervisor.configure({ type, name, role, generation })
  }

  /** Saves a configuration without telling the supervisor. */
  replace({ name, actor = 'obedient', role = 'target', generation = '1', settings = {} }: SavedInstance) {
    const file = new URL(`./actors/${actor}.ts`, import.meta.url)
    const spec: InstanceSpec = { type: actor, name, role, generation, actor: file, settings }
    this.#saved.set(name, spec)
    return spec
  }

  /** Deletes a configuration without telling the supervisor. */
  forget(name: string): void {
    this.#saved.delete(name)
  }

  async run(instance: SavedInstance): Promise<ServiceInstance> {
    this.save(instance)
    return this.supervisor.start(instance.actor ?? 'obedient', instance.name)
  }

  order(name: string, order: Order, timeoutMs = PATIENCE_MS): Promise<unknown> {
    return this.supervisor.request('obedient', name, order, { timeoutMs })
  }

  /** The instance as soon as it is as the test expects. */
  until(name: string, expected: (instance: ServiceInstance) => boolean): Promise<ServiceInstance> {
    const { promise, resolve, reject } = Promise.withResolvers<ServiceInstance>()
    const deadline = setTimeout(() => {
      const found = this.supervisor.list().find((instance) => instance.name === name)
      reject(new Error(`${name} did not get there: ${JSON.stringify(found)}`))
    }, PATIENCE_MS)
    const look = (instance: ServiceInstance): void => {
      if (instance.name === name && expected(instance)) resolve(instance)
    }
    const end = this.supervisor.onChange(look)
    for (const instance of this.supervisor.list()) look(instance)
    return promise.finally(() => {
      end()
      clearTimeout(deadline)
    })
  }
}

/** Polls a condition that no event tells of. */
export async function eventually(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`It did not happen: ${what}`)
    await systemClock.sleep(5)
  }
}
