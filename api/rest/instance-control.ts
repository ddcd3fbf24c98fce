import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import type { InstanceAction, InstanceStatus } from '../../runtime/lifecycle.ts'
import type { ServiceInstance } from '../../runtime/supervisor/service-instance.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import type { PluginFailures } from '../../storage/alerts/plugin-failures.ts'
import type { AuditLog } from '../../storage/audit/audit-log.ts'
import { instanceId } from '../../storage/audit/kinds.ts'
import type { InstanceList } from '../../storage/plugins/instance-list.ts'

const DONE = { start: 'started', stop: 'stopped', restart: 'restarted' } as const

type Supervision = Pick<Supervisor, 'find' | InstanceAction>

/** Whose doing it is, and where it is logged. */
interface Request {
  readonly caller: Caller
  readonly log: Pick<Log, 'warn' | 'error'>
}

export interface InstanceControlOptions {
  readonly supervisor: Supervision
  readonly instances: Pick<InstanceList, 'apply'>
  readonly audit: AuditLog
  readonly pluginFailures: Pick<PluginFailures, 'recorded'>
}

/**
 * What callers do to instances, with its audit events: each tells what has happened, so that what was refused or failed
 * has none. What the program does by itself, at its start or after a breakdown, is told by the log alone.
 */
export class InstanceControl {
  readonly #supervisor: Supervision
  readonly #instances: Pick<InstanceList, 'apply'>
  readonly #audit: AuditLog
  readonly #pluginFailures: Pick<PluginFailures, 'recorded'>

  constructor({ supervisor, instances, audit, pluginFailures }: InstanceControlOptions) {
    this.#supervisor = supervisor
    this.#instances = instances
    this.#audit = audit
    this.#pluginFailures = pluginFailures
  }

  /** Resolves and throws as the supervisor's actions do. */
  async perform(
    action: InstanceAction,
    type: string,
    name: string,
    request: Request,
  ): Promise<ServiceInstance> {
    const before = this.#statusOf(type, name)
    try {
      const instance = await this.#supervisor[action](type, name)
      await this.#record(DONE[action], instance, before, instance.status, request)
      return instance
    } catch (thrown) {
      const hasFailed = thrown instanceof WaybillError && thrown.code === 'START_FAILED'
      // Whoever reads that the start has failed finds its alert.
      if (hasFailed) await this.#pluginFailures.recorded()
      // A restart that fails has stopped what ran.
      if (hasFailed && before === 'running') {
        await this.#record('stopped', { type, name }, before, 'error', request)
      }
      throw thrown
    }
  }

  /** Lists an instance that was saved; one that is disabled or deleted is stopped, and listed no longer. */
  async apply(type: string, name: string, request: Request): Promise<void> {
    const before = this.#statusOf(type, name)
    await this.#instances.apply(type, name)
    const isStopped = before === 'running' && this.#statusOf(type, name) === null
    if (isStopped) await this.#record('stopped', { type, name }, before, 'stopped', request)
  }

  #statusOf(type: string, name: string): InstanceStatus | null {
    return this.#supervisor.find(type, name)?.status ?? null
  }

  async #record(
    action: (typeof DONE)[InstanceAction],
    { type, name }: { readonly type: string; readonly name: string },
    before: InstanceStatus | null,
    after: InstanceStatus,
    { caller, log }: Request,
  ): Promise<void> {
    const changes = before === after ? [] : [{ field: 'status', old: before, new: after }]
    const recordId = instanceId(type, name)
    const event = { action, kind: 'service-instance', recordId, recordName: name, changes } as const
    await this.#audit.recordDone(caller, event, log)
  }
}
