import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { directoryOf, toCandidate, untouched, type Candidate } from './candidate.ts'
import { isMissing, NoDirectory, type Directory, type Walk } from './directory.ts'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
/** Windows knows neither. */
const FLAGS = O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0)

/**
 * A file that is read from its beginning to its end. What is opened is the file that was looked at: not a link that has
 * come into its place, nor a pipe, for which one would wait without end.
 */
export class OpenFile {
  readonly #candidate: Candidate
  readonly #directory: Directory
  readonly #handle: number
  #readBytes = 0

  private constructor(candidate: Candidate, directory: Directory, handle: number) {
    this.#candidate = candidate
    this.#directory = directory
    this.#handle = handle
  }

  /** Null when it has gone or is another one: then it has not settled after all. */
  static open(walk: Walk, candidate: Candidate): OpenFile | null {
    let file: OpenFile
    try {
      const directory = walk.enter(directoryOf(candidate.path))
      try {
        file = new OpenFile(candidate, directory, openSync(directory.at(candidate.name), FLAGS))
      } catch (thrown) {
        throw directory.told(thrown)
      }
    } catch (thrown) {
      if (isMissing(thrown) || thrown instanceof NoDirectory) return null
      throw thrown
    }
    if (file.#isUntouched()) return file
    file.close()
    return null
  }

  /** The next bytes, as many as are asked for but at the end; empty at the end. Null when the file has changed. */
  read(bytes: number): Buffer | null {
    const wanted = Math.min(bytes, this.#candidate.size - this.#readBytes)
    const buffer = Buffer.allocUnsafeSlow(wanted)
    let filled = 0
    while (filled < wanted) {
      const count = this.#readInto(buffer, filled)
      if (count === 0) return null
      filled += count
    }
    this.#readBytes += wanted
    if (this.#readBytes === this.#candidate.size && !this.#isUntouched()) return null
    return buffer
  }

  close(): void {
    closeSync(this.#handle)
  }

  #readInto(buffer: Buffer, offset: number): number {
    try {
      return readSync(this.#handle, buffer, offset, buffer.length - offset, null)
    } catch (thrown) {
      throw this.#directory.told(thrown)
    }
  }

  #isUntouched(): boolean {
    const stats = fstatSync(this.#handle)
    return stats.isFile() && untouched(toCandidate(this.#candidate.path, stats), this.#candidate)
  }
}

/** A small file's bytes; null when it has gone or changed. */
export function readWhole(walk: Walk, candidate: Candidate): Buffer | null {
  const file = OpenFile.open(walk, candidate)
  try {
    return file?.read(candidate.size) ?? null
  } finally {
    file?.close()
  }
}
