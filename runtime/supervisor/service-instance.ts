import type { InstanceAction, InstanceStatus } from '../lifecycle.ts'
import type { PluginRole } from '../module.ts'

/** What the supervisor must know to list an instance. */
export interface InstanceIdentity {
  readonly type: string
  /** Unique among all types. */
  readonly name: string
  readonly role: PluginRole
  /** Another one whenever the instance was disabled, or deleted and saved anew: then what runs is not what is saved. */
  readonly generation: string
}

/** What it must know to start one. */
export interface InstanceSpec extends InstanceIdentity {
  /** The file whose default export is a StartActor. */
  readonly actor: URL
  /** Validated, secrets in clear; goes to the thread as a structured clone. */
  readonly settings: unknown
}

/** An instance as it is seen from outside (specification, 2.12). */
export interface ServiceInstance {
  readonly type: string
  readonly name: string
  readonly status: InstanceStatus
  /** Why it is in `error`; null in every other status. */
  readonly error: string | null
  readonly controllable: boolean
  readonly state_since: Date
  /** The actions possible now. */
  readonly actions: readonly InstanceAction[]
  /** Restarts after a breakdown since the process began. */
  readonly restarts: number
  /** Id of the thread while the instance runs or finishes its work. */
  readonly pid_thread: number | null
  readonly node: string
  /** Why a running source takes nothing in at present; null when it does, and of every other instance. */
  readonly held_back: string | null
}

/** Raised once whenever an instance comes into `error`. */
export interface PluginFailedAlert {
  readonly code: 'plugin_failed'
  readonly type: string
  readonly name: string
  readonly reason: string
  /** Whether its start is tried again by itself. */
  readonly retries: boolean
}
