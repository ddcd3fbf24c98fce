import {
  constants,
  copyFileSync,
  linkSync,
  lstatSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { crashPoint } from '../../runtime/crash-point.ts'
import { PermanentFailure } from '../../storage/exchange/retry.ts'
import { directoryOf, nameOf } from './candidate.ts'
import { codeOf, NoDirectory, Walk, type Directory } from './directory.ts'
import { makeDirectory } from './folder-work.ts'
import { numbered } from './names.ts'
import { removeTraces, tracesOf, wasPublished } from './traces.ts'

export type OnConflict = 'rename' | 'overwrite' | 'fail'

export interface Publication {
  readonly deliveryId: number
  readonly fencing: number
  /** Which file of the delivery, from 1 in their order; null for the only one. */
  readonly file: number | null
  /** Whether it was tried before. Else what lies here of the delivery is left of a time before it was redelivered. */
  readonly isRepeat: boolean
  /** Relative to the base directory; every part a safe name. */
  readonly path: string
  readonly onConflict: OnConflict
}

/** How many numbered names are tried before it counts as a failure. */
const MAX_NUMBER = 10_000
/** Drafts lie beside the published files, on the same file system, where no reader of the tree looks. */
const WORKSHOP = '.waybill'
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0)
/** A file system without second names for a file. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EINVAL'])

/**
 * Publishes files under a base directory: complete or not at all, and once. A draft is written and flushed, and gets
 * its final name as a second link, which fails when the name is taken. The draft is then renamed to `.done`, and is
 * removed when the delivery is settled. So a crash at any point leaves a trace that says whether the file was
 * published (traces.ts), also where there are no second links, and where a file is to be written over.
 */
export class Publisher {
  readonly #baseDirectory: string

  private constructor(baseDirectory: string) {
    this.#baseDirectory = baseDirectory
  }

  static open(baseDirectory: string): Publisher {
    makeDirectory(baseDirectory)
    const publisher = new Publisher(realpathSync(baseDirectory))
    publisher.#inWorkshop(() => undefined)
    return publisher
  }

  /** Begins; null when the file was published already. */
  async begin(publication: Publication): Promise<Draft | null> {
    const { deliveryId, fencing, file, isRepeat } = publication
    const walk = new Walk(this.#baseDirectory)
    try {
      const workshop = workshopOf(walk)
      if (isRepeat) {
        if (wasPublished(workshop, deliveryId, file)) {
          walk.close()
          return null
        }
      } else if (file === null || file === 1) removeTraces(workshop, deliveryId)
      const name = file === null ? `${deliveryId}.${fencing}` : `${deliveryId}.${fencing}.${file}`
      const handle = await open(workshop.at(`${name}.part`), NEW_FILE, 0o666)
      crashPoint('file-writer.draft-begun')
      return new Draft({ publication, name, baseDirectory: this.#baseDirectory, walk, handle })
    } catch (thrown) {
      walk.close()
      throw asFailure(thrown)
    }
  }

  /** Removes the traces of a delivery that is settled. */
  finished(deliveryId: number): void {
    this.#inWorkshop((workshop) => removeTraces(workshop, deliveryId))
    crashPoint('file-writer.traces-removed')
  }

  /** Deliveries that have left traces. */
  traced(): number[] {
    return this.#inWorkshop((workshop) => [
      ...new Set(tracesOf(workshop, null).map(({ deliveryId }) => deliveryId)),
    ])
  }

  #inWorkshop<T>(act: (workshop: Directory) => T): T {
    const walk = new Walk(this.#baseDirectory)
    try {
      return act(workshopOf(walk))
    } finally {
      walk.close()
    }
  }
}

function workshopOf(walk: Walk): Directory {
  return walk.enterOrMake(WORKSHOP, 0o700)
}

/** A link in the way stays there: no repeat changes that. */
function asFailure(thrown: unknown): unknown {
  return thrown instanceof NoDirectory ? new PermanentFailure(thrown.message) : thrown
}

interface DraftParts {
  readonly publication: Publication
  readonly name: string
  readonly baseDirectory: string
  readonly walk: Walk
  readonly handle: FileHandle
}

/** A file that is being written. It ends with `publish` or with `abandon`. */
export class Draft {
  readonly #parts: DraftParts
  #walk: Walk | null
  #isOpen = true

  constructor(parts: DraftParts) {
    this.#parts = parts
    this.#walk = parts.walk
  }

  async write(bytes: Uint8Array): Promise<void> {
    await this.#parts.handle.writeFile(bytes)
  }

  /** Flushes it, and lets go of its handles: it waits for its name, as one of many may. */
  async seal(): Promise<void> {
    try {
      await this.#flush()
      this.#closeWalk()
    } catch (thrown) {
      await this.abandon()
      throw asFailure(thrown)
    }
  }

  /** Throws when a file has the final name and must be left as it is. */
  refuseTaken(): void {
    const { path, onConflict } = this.#parts.publication
    if (onConflict !== 'fail') return
    try {
      const directory = this.#entered().enter(directoryOf(path))
      if (lstatSync(directory.at(nameOf(path)), { throwIfNoEntry: false }) !== undefined)
        throw isTaken(nameOf(path), directory)
    } catch (thrown) {
      if (codeOf(thrown) !== 'ENOENT') throw asFailure(thrown)
    } finally {
      this.#closeWalk()
    }
  }

  /** Flushes it, and gives it its final name. When that fails nothing of it stays. */
  async publish(): Promise<void> {
    const { publication } = this.#parts
    try {
      await this.#flush()
      const directory = this.#entered().enterOrMake(directoryOf(publication.path), 0o777)
      await this.#name(directory, nameOf(publication.path))
      await directory.syncLater()
      crashPoint('file-writer.published')
      this.#closeWalk()
    } catch (thrown) {
      await this.abandon()
      throw asFailure(thrown)
    }
  }

  /** Removes it, unless it was published. */
  async abandon(): Promise<void> {
    const { name } = this.#parts
    await this.#closeFile().catch(() => undefined)
    try {
      const workshop = this.#workshop()
      const draft = workshop.at(`${name}.part`)
      // One that has a second name was published; the trace says so to the next try.
      if (lstatSync(draft, { throwIfNoEntry: false })?.nlink === 1) {
        rmSync(workshop.at(`${name}.naming`), { force: true })
        rmSync(draft, { force: true })
      }
    } finally {
      this.#closeWalk()
    }
  }

  #entered(): Walk {
    this.#walk ??= new Walk(this.#parts.baseDirectory)
    return this.#walk
  }

  #workshop(): Directory {
    return workshopOf(this.#entered())
  }

  #closeWalk(): void {
    this.#walk?.close()
    this.#walk = null
  }

  async #flush(): Promise<void> {
    if (!this.#isOpen) return
    await this.#parts.handle.sync()
    crashPoint('file-writer.draft-synced')
    await this.#closeFile()
  }

  async #closeFile(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.#parts.handle.close()
  }

  async #name(directory: Directory, name: string): Promise<void> {
    const { publication } = this.#parts
    const workshop = this.#workshop()
    if (publication.onConflict === 'overwrite') return this.#rename(directory, () => name)
    try {
      this.#linkFree(directory, name)
      crashPoint('file-writer.named')
      renameSync(workshop.at(`${this.#parts.name}.part`), workshop.at(`${this.#parts.name}.done`))
      crashPoint('file-writer.marked-done')
    } catch (thrown) {
      if (!NO_LINKS.has(codeOf(thrown) ?? '') && codeOf(thrown) !== 'EXDEV')
        throw directory.told(workshop.told(thrown))
      await this.#rename(directory, () => this.#freeName(directory, name))
    }
  }

  #linkFree(directory: Directory, name: string): void {
    const { name: draft } = this.#parts
    const workshop = this.#workshop()
    for (const free of this.#names(directory, name)) {
      try {
        return linkSync(workshop.at(`${draft}.part`), directory.at(free))
      } catch (thrown) {
        if (codeOf(thrown) !== 'EEXIST') throw thrown
      }
    }
  }

  #freeName(directory: Directory, name: string): string {
    for (const free of this.#names(directory, name))
      if (lstatSync(directory.at(free), { throwIfNoEntry: false }) === undefined) return free
    return name
  }

  /** The names to try; throws at their end. */
  *#names(directory: Directory, name: string): Generator<string, void, void> {
    yield name
    if (this.#parts.publication.onConflict === 'fail') throw isTaken(name, directory)
    for (let number = 2; number <= MAX_NUMBER; number += 1) yield numbered(name, number)
    throw new PermanentFailure(`No free name for ${name} in ${directory.path}`)
  }

  /** The draft itself gets the final name. The mark is durable before: with the draft gone, it says what happened. */
  async #rename(directory: Directory, nameOfFile: () => string): Promise<void> {
    const { name } = this.#parts
    const workshop = this.#workshop()
    const draft = workshop.at(`${name}.part`)
    try {
      writeFileSync(workshop.at(`${name}.naming`), '', { flag: 'wx', mode: 0o600 })
      await workshop.syncLater()
      crashPoint('file-writer.marked-naming')
      try {
        renameSync(draft, directory.at(nameOfFile()))
        crashPoint('file-writer.renamed')
      } catch (thrown) {
        if (codeOf(thrown) !== 'EXDEV') throw thrown
        await copyBeside(draft, directory, { hidden: `.${name}.waybill`, name: nameOfFile })
        rmSync(draft)
      }
    } catch (thrown) {
      throw directory.told(workshop.told(thrown))
    }
  }
}

function isTaken(name: string, directory: Directory): PermanentFailure {
  return new PermanentFailure(`The file ${name} is there already, in ${directory.path}`)
}

/** To a directory on another file system: a copy under a hidden name there, which then gets the final one. */
async function copyBeside(
  draft: string,
  directory: Directory,
  names: { readonly hidden: string; readonly name: () => string },
): Promise<void> {
  const hidden = directory.at(names.hidden)
  try {
    copyFileSync(draft, hidden)
    const handle = await open(hidden, constants.O_RDWR | (constants.O_NOFOLLOW ?? 0))
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
    renameSync(hidden, directory.at(names.name()))
  } catch (thrown) {
    rmSync(hidden, { force: true })
    throw thrown
  }
}
