import {
  closeSync,
  constants,
  fsync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

/** Linux leads from an open directory to what is in it, wherever its path leads to meanwhile. */
const HANDLES = '/proc/self/fd'
const hasHandles = process.platform === 'linux' && isThere(HANDLES)
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants

/** A step of a path that is a symbolic link, or no directory: nothing goes through it. */
export class NoDirectory extends Error {
  override readonly name = 'NoDirectory'
}

/**
 * A directory that is held open. `at` names what lies in this very directory, also after somebody has renamed it or
 * put a symbolic link into its place: a check of a path and its use could meet two different trees. Where the system
 * has no such names it is a path whose steps were checked.
 *
 * The calls are synchronous: all this runs in a process of its own (folder-process.ts), which does nothing else.
 */
export class Directory {
  /** As an operator knows it. */
  readonly path: string
  readonly #handle: number | null

  private constructor(path: string, handle: number | null) {
    this.path = path
    this.#handle = handle
  }

  /** A directory that an operator named: symbolic links on the way to it are the operator's. */
  static open(path: string): Directory {
    if (!hasHandles) return new Directory(realpathSync(path), null)
    return new Directory(path, openSync(path, O_RDONLY | O_DIRECTORY))
  }

  /** A path for the system to what has this name here. */
  at(name: string): string {
    return this.#handle === null ? join(this.path, name) : `${HANDLES}/${this.#handle}/${name}`
  }

  /** Throws ENOENT when there is none, NoDirectory for a link and what else is no directory. */
  enter(name: string): Directory {
    const path = join(this.path, name)
    if (this.#handle === null) {
      if (!lstatSync(path).isDirectory() || dirname(realpathSync(path)) !== realpathSync(this.path))
        throw noDirectory(path)
      return new Directory(path, null)
    }
    try {
      return new Directory(path, openSync(this.at(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW))
    } catch (thrown) {
      throw ['ENOTDIR', 'ELOOP'].includes(codeOf(thrown) ?? '') ? noDirectory(path) : this.told(thrown)
    }
  }

  /** The same, and makes it if it is missing; durably. */
  enterOrMake(name: string, mode: number): Directory {
    try {
      return this.enter(name)
    } catch (thrown) {
      if (codeOf(thrown) !== 'ENOENT') throw thrown
    }
    try {
      mkdirSync(this.at(name), { mode })
    } catch (thrown) {
      if (codeOf(thrown) !== 'EEXIST') throw this.told(thrown)
    }
    this.sync()
    return this.enter(name)
  }

  /** Makes new names, renames and removals in it survive a power failure. */
  sync(): void {
    // Windows has no way to open a directory for this; NTFS journals its names itself.
    if (process.platform === 'win32') return
    const handle = this.#handle ?? openSync(this.path, O_RDONLY)
    try {
      fsyncSync(handle)
    } catch (thrown) {
      if (!knowsNoSync(thrown)) throw this.told(thrown)
    } finally {
      if (this.#handle === null) closeSync(handle)
    }
  }

  /** The same, while other work goes on. */
  async syncLater(): Promise<void> {
    if (this.#handle === null) return this.sync()
    const handle = this.#handle
    await new Promise<void>((resolve, reject) => {
      fsync(handle, (error) => (error === null || knowsNoSync(error) ? resolve() : reject(this.told(error))))
    })
  }

  /** The number of the directory itself; another one at its place has another. */
  get ino(): number {
    return statSync(this.at('.')).ino
  }

  close(): void {
    if (this.#handle !== null) closeSync(this.#handle)
  }

  /** The error in the words of the path that an operator knows. */
  told<Thrown>(thrown: Thrown): Thrown {
    if (thrown instanceof Error && this.#handle !== null)
      thrown.message = thrown.message.replaceAll(`${HANDLES}/${this.#handle}/`, `${this.path}/`)
    return thrown
  }
}

/** As some network and FUSE file systems do not. */
function knowsNoSync(thrown: unknown): boolean {
  return ['EINVAL', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(codeOf(thrown) ?? '')
}

function noDirectory(path: string): NoDirectory {
  return new NoDirectory(`${path} is a symbolic link, which is not followed, or no directory`)
}

export function codeOf(thrown: unknown): string | undefined {
  return (thrown as NodeJS.ErrnoException | undefined)?.code
}

export function isMissing(thrown: unknown): boolean {
  return codeOf(thrown) === 'ENOENT'
}

function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined
}

/** Directories below one that are held open for a while: each is opened once. */
export class Walk {
  readonly base: Directory
  readonly #entered = new Map<string, Directory>()

  constructor(base: string) {
    this.base = Directory.open(base)
  }

  /** The directory at a path of names with `/` between them; '' is the base. */
  enter(path: string): Directory {
    return this.#enter(path, (parent, name) => parent.enter(name))
  }

  /** The same, and makes what is missing of it. */
  enterOrMake(path: string, mode: number): Directory {
    return this.#enter(path, (parent, name) => parent.enterOrMake(name, mode))
  }

  #enter(path: string, step: (parent: Directory, name: string) => Directory): Directory {
    if (path === '' || path === '.') return this.base
    const known = this.#entered.get(path)
    if (known !== undefined) return known
    const cut = path.lastIndexOf('/')
    const parent = this.#enter(path.slice(0, Math.max(0, cut)), step)
    const entered = step(parent, path.slice(cut + 1))
    this.#entered.set(path, entered)
    return entered
  }

  close(): void {
    for (const directory of this.#entered.values()) directory.close()
    this.base.close()
  }
}
