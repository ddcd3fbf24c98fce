import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { InstanceAction, InstanceStatus } from '../../runtime/lifecycle.ts'
import type { ServiceInstance } from '../../runtime/supervisor/service-instance.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import type { AuditLog } from '../../storage/audit/audit-log.ts'
import { instanceId } from '../../storage/audit/kinds.ts'

const DONE = { start: 'started', stop: 'stopped', restart: 'restarted' } as const

type Supervision = Pick<Supervisor, 'find' | 'remove' | InstanceAction>

/**
 * What callers do to instances, with its audit events: each tells what has happened, so that what was refused or failed
 * has none. What the program does by itself, at its start or after a breakdown, is told by the log alone.
 */
export class InstanceControl {
  readonly #supervisor: Supervision
  readonly #audit: AuditLog

  constructor({ supervisor, audit }: { readonly supervisor: Supervision; readonly audit: AuditLog }) {
    this.#supervisor = supervisor
    this.#audit = audit
  }

  /** Resolves and throws as the supervisor's actions do. */
  async perform(
    action: InstanceAction,
    type: string,
    name: string,
    caller: Caller,
  ): Promise<ServiceInstance> {
    const before = this.#statusOf(type, name)
    try {
      const instance = await this.#supervisor[action](type, name)
      await this.#record(DONE[action], instance, before, instance.status, caller)
      return instance
    } catch (thrown) {
      const hasFailed = thrown instanceof WaybillError && thrown.code === 'START_FAILED'
      // A restart that fails has stopped what ran.
      if (hasFailed && before === 'running') {
        await this.#record('stopped', { type, name }, before, 'error', caller)
      }
      throw thrown
    }
  }

  /** Stops an instance that is disabled or deleted, and lists it no longer. */
  async remove(type: string, name: string, caller: Caller): Promise<void> {
    const before = this.#statusOf(type, name)
    await this.#supervisor.remove(type, name)
    if (before === 'running') await this.#record('stopped', { type, name }, before, 'stopped', caller)
  }

  #statusOf(type: string, name: string): InstanceStatus | null {
    return this.#supervisor.find(type, name)?.status ?? null
  }

  async #record(
    action: (typeof DONE)[InstanceAction],
    { type, name }: { readonly type: string; readonly name: string },
    before: InstanceStatus | null,
    after: InstanceStatus,
    caller: Caller,
  ): Promise<void> {
    const changes = before === after ? [] : [{ field: 'status', old: before, new: after }]
    const recordId = instanceId(type, name)
    await this.#audit.recordAlone(caller, {
      action,
      kind: 'service-instance',
      recordId,
      recordName: name,
      changes,
    })
  }
}
