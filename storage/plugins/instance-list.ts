import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import type { PluginConfigurations } from './plugin-configurations.ts'
import type { PluginTypes } from './rules.ts'

export interface InstanceListOptions {
  readonly plugins: Pick<PluginConfigurations, 'enabled' | 'instance'>
  readonly pluginTypes: PluginTypes
  readonly supervisor: Pick<Supervisor, 'configure' | 'remove' | 'list' | 'generationOf'>
}

interface Named {
  readonly type: string
  readonly name: string
}

function isAmong(some: readonly Named[], one: Named): boolean {
  return some.some(({ type, name }) => type === one.type && name === one.name)
}

/** How often what other nodes have saved is looked for. */
const ROUND_MS = 3_000

/**
 * Keeps the instances that a supervisor lists the same as those that are saved and enabled. Whoever saves one has it
 * applied at once; a round finds what was saved on another node.
 */
export class InstanceList {
  readonly #options: InstanceListOptions
  /** What is read of an instance and acted on is one step, and the steps of one instance come one after the other. */
  readonly #steps = new Map<string, Promise<unknown>>()

  constructor(options: InstanceListOptions) {
    this.#options = options
  }

  /** Lists the instance as it is saved now: of two that were saved at once the later one counts. Waits for a stop. */
  async apply(type: string, name: string): Promise<void> {
    const key = `${type}:${name}`
    const before = this.#steps.get(key)
    const step = (async () => {
      await before?.catch(() => undefined)
      return this.#step(type, name)
    })()
    this.#steps.set(key, step)
    try {
      await (
        await step
      ).ended
    } finally {
      if (this.#steps.get(key) === step) this.#steps.delete(key)
    }
  }

  /** Applies what other nodes have saved. Answers how long to wait for the next round. */
  async round(): Promise<number> {
    const { plugins, supervisor } = this.#options
    const listed = supervisor.list()
    const saved = await plugins.enabled()
    // A name alone would not tell of what was disabled, or deleted, and saved again since the last look.
    const differing = [
      ...saved.filter(({ type, name, generation }) => supervisor.generationOf(type, name) !== generation),
      ...listed.filter((one) => !isAmong(saved, one)),
    ]
    await Promise.all(differing.map(({ type, name }) => this.apply(type, name)))
    return ROUND_MS
  }

  /** In an object, as nobody who only waits for the step waits for the end of the instance, too. */
  async #step(type: string, name: string): Promise<{ readonly ended: Promise<void> }> {
    const { plugins, pluginTypes, supervisor } = this.#options
    const saved = await plugins.instance(type, name)
    if (saved === null) return { ended: supervisor.remove(type, name) }
    supervisor.configure({
      type,
      name,
      role: pluginTypes.get(type).role,
      generation: saved.generation,
    })
    return { ended: Promise.resolve() }
  }
}
