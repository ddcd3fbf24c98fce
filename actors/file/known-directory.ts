import { statSync } from 'node:fs'
import { Walk } from './directory.ts'

/** A directory that has become another one, such as that of a file system which is not mounted any more, may come back. */
export const MAY_COME_BACK_MS = 600_000

/**
 * A directory that files are moved to. When another one is found at its place than before, files would lie under the
 * place of a file system that is away, where nobody looks: for ten minutes nothing is moved there. An operator who has
 * exchanged it meant to. What was there before this process began, nobody knows.
 */
export class KnownDirectory {
  /** Absolute, without symbolic links. */
  readonly path: string
  #ino: number
  #strangeSinceMs: number | null = null

  constructor(path: string) {
    this.path = path
    this.#ino = statSync(path).ino
  }

  /** Throws while it is another one. */
  open(nowMs: number): Walk {
    const walk = new Walk(this.path)
    const { ino } = walk.base
    if (ino === this.#ino) {
      this.#strangeSinceMs = null
      return walk
    }
    this.#strangeSinceMs ??= nowMs
    if (nowMs - this.#strangeSinceMs < MAY_COME_BACK_MS) {
      walk.close()
      throw new Error(`${this.path} is another directory than before: for a while nothing is moved to it`)
    }
    this.#ino = ino
    this.#strangeSinceMs = null
    return walk
  }
}
