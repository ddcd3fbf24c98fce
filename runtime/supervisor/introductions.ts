import { MessageChannel } from 'node:worker_threads'
import type { Thread } from '../thread/spawn.ts'

/** A running instance as the others know it. */
export interface Acquaintance {
  readonly name: string
  readonly thread: Thread
}

/**
 * Brings sources and targets together: a source asks once for a target and gets a port to each thread that the
 * target runs in from then on. What they say to each other does not pass through here.
 */
export class Introductions {
  /** Sources by the name of the target that they look for. */
  readonly #seekers = new Map<string, Set<Acquaintance>>()
  /** Running targets by name. */
  readonly #targets = new Map<string, Acquaintance>()

  /** A source looks for a target. */
  seek(source: Acquaintance, targetName: string): void {
    const seekers = this.#seekers.get(targetName) ?? new Set()
    this.#seekers.set(targetName, seekers.add(source))
    const target = this.#targets.get(targetName)
    if (target === undefined) source.thread.introduce(targetName, null)
    else introduce(source, target)
  }

  /** A target is ready. */
  arrive(target: Acquaintance): void {
    this.#targets.set(target.name, target)
    for (const source of this.#seekers.get(target.name) ?? []) introduce(source, target)
  }

  /** A target takes nothing more: its sources learn it from their closed ports. */
  leave(target: Acquaintance): void {
    if (this.#targets.get(target.name)?.thread === target.thread) this.#targets.delete(target.name)
  }

  /** The thread is gone. */
  forget(thread: Thread): void {
    for (const [target, seekers] of this.#seekers) {
      for (const seeker of seekers) if (seeker.thread === thread) seekers.delete(seeker)
      if (seekers.size === 0) this.#seekers.delete(target)
    }
  }
}

function introduce(source: Acquaintance, target: Acquaintance): void {
  const { port1, port2 } = new MessageChannel()
  target.thread.connect(source.name, port1)
  source.thread.introduce(target.name, port2)
}
