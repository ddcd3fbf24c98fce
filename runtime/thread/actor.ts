import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'

/** What an actor is given: all it may know of the process around its thread. */
export interface ActorContext<Settings = unknown> {
  readonly type: string
  readonly name: string
  readonly node: string
  /** Which of the configurations that had this name one after the other `settings` are from, and since which enabling. */
  readonly generation: string
  /** Validated, secrets in clear. */
  readonly settings: Settings
  /** Facts that the composition root hands to every actor, such as the database URL. Opaque here. */
  readonly process: unknown
  /** Has `type` and `name` in every line. */
  readonly log: Log
  readonly clock: Clock
  /** Fires when a stop begins, also during the start. */
  readonly signal: AbortSignal

  /**
   * Sources: tells a target that `count` deliveries wait for it. Waits for credit while the target is behind; resolves
   * at once when the target does not run or this instance is stopping: the database has the work.
   */
  announce(target: string, count: number): Promise<void>
  /**
   * Sources: why nothing may be taken in now, in words for an operator; null when it may. What could not be kept or
   * delivered in time is left to whoever has it.
   */
  heldBack(): string | null
  /**
   * Sources: why the instance itself takes nothing in now, such as a folder that is gone, in words for an operator; null
   * when it does again. It is listed as `held_back`, and may be said as often as the actor likes.
   */
  tellCondition(text: string | null): void
  /** Targets: what to do when deliveries wait. A hint: the count says nothing of what a look will find. */
  onAnnouncement(handler: (count: number) => void): void
  /** Targets: gives credit back for deliveries that are finished. More than were announced is no harm. */
  settled(count: number): void
  /**
   * Targets: a look found nothing waiting, so all outstanding credit goes back. To be called whenever that happens:
   * announced work that ended elsewhere, such as on another node, would hold the sources back for ever.
   */
  drained(): void
  /** The instance cannot go on. The supervisor ends the thread and treats it as a breakdown. */
  fail(reason: Error): void
}

export interface RunningActor {
  /** Finishes what is in hand, takes nothing new. The supervisor bounds it (30 s), then ends the thread. */
  stop(): Promise<void>
  /** Answers `supervisor.request`. A WaybillError keeps its code. The signal fires when nobody waits any more. */
  handle?(request: unknown, signal: AbortSignal): Promise<unknown>
}

/** The default export of an actor's file. Resolves when the instance is ready: port bound, directory reachable. */
export type StartActor<Settings = unknown> = (context: ActorContext<Settings>) => Promise<RunningActor>
