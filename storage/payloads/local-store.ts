import { hash, randomUUID } from 'node:crypto'
import { mkdir, open, opendir, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { pipeline as pass, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { crashPoint } from '../../runtime/crash-point.ts'
import { makeDirectory, syncDirectory } from '../durable-file.ts'
import type { PayloadStage } from '../exchange/states.ts'
import { StorageError } from '../storage-error.ts'
import { checkStore } from './check.ts'
import { CHUNK_BYTES, Measure, Verify } from './digest.ts'
import { kindOf, problemOf } from './problem.ts'
import { inParallel } from './parallel.ts'
import { asStorageError, fromSource } from './failure.ts'
import { FileSink } from './file-sink.ts'
import {
  checkedMessageId,
  isMessageId,
  payloadName,
  type CheckStep,
  type OpenOptions,
  type PayloadItem,
  type PayloadStore,
  type StoreCheck,
  type StoredPayload,
} from './store.ts'

/** Files are written here and then renamed to their place, so that a place never holds half a file. */
export const DRAFTS = '.incoming'
const DIRECTORY_MODE = 0o700
const FILE_MODE = 0o600
const LOCAL = { problemOf: localProblemOf, kindOf }
/** Files synced at the same time in a bulk; libuv's threads do the rest of the bounding. */
const PARALLEL_SYNCS = 16
/** More than the stages that a message has beside one. */
const PLACING_TRIES = 10

/** Stages as files `<directory>/<message id>/<stage>`, for the process's own account alone. */
export class LocalStore implements PayloadStore {
  readonly checkedForMs = 0
  readonly earlierPlaces = []
  readonly directory: string
  readonly #drafts: string
  #isPrepared: boolean

  private constructor(directory: string, isPrepared: boolean) {
    this.directory = directory
    this.#drafts = join(directory, DRAFTS)
    this.#isPrepared = isPrepared
  }

  /** Makes the directory if it is missing. Throws a StorageError when it cannot be used. */
  static async open(path: string): Promise<LocalStore> {
    const store = await LocalStore.prepare(path)
    const checked = await store.check()
    if (checked.ok) return store
    throw new StorageError(
      `The payload directory ${store.directory} cannot be used: ${checked.step}: ${checked.problem}`,
    )
  }

  /**
   * The store of a directory that is prepared, touching nothing: a full disk keeps no thread from starting. A file system
   * that is not mounted lacks the folder of drafts, so that nothing is written beneath its place.
   */
  static at(path: string): LocalStore {
    return new LocalStore(resolve(path), true)
  }

  /** The store of a directory that could not be prepared, as its disk is full: the checks do it, when there is room. */
  static unprepared(path: string): LocalStore {
    return new LocalStore(resolve(path), false)
  }

  /** Makes the directory if it is missing, without trying whether stages can be stored in it. */
  static async prepare(path: string): Promise<LocalStore> {
    const store = LocalStore.unprepared(path)
    await store.#prepare()
    return store
  }

  get place(): string {
    return `the directory ${this.directory}`
  }

  async put(messageId: string, stage: PayloadStage, source: Readable | Buffer): Promise<StoredPayload> {
    const place = this.#place(messageId, stage)
    return asStorageError(`The payload ${messageId}/${stage} cannot be stored`, LOCAL, async () => {
      const draft = this.#draft()
      try {
        const stored = Buffer.isBuffer(source)
          ? await writeBytes(draft, source)
          : await writeStream(draft, source)
        crashPoint('payload-put.draft-synced')
        await intoPlace(draft, place)
        crashPoint('payload-put.renamed')
        await syncDirectory(dirname(place))
        await syncDirectory(this.directory)
        crashPoint('payload-put.directories-synced')
        return stored
      } catch (thrown) {
        await removeQuietly(draft, dirname(place))
        throw thrown
      }
    })
  }

  /** Each file is synced, then each message's directory once, then ours once: a few syncs for many stages. */
  async putMany(items: readonly PayloadItem[]): Promise<void> {
    const writes = items.map(({ messageId, stage, bytes }) => ({
      bytes,
      draft: this.#draft(),
      place: this.#place(messageId, stage),
    }))
    const directories = [...new Set(writes.map(({ place }) => dirname(place)))]
    await asStorageError(`${items.length} payloads cannot be stored`, LOCAL, async () => {
      try {
        await inParallel(PARALLEL_SYNCS, writes, async ({ draft, bytes }) => {
          await writeFile(draft, bytes, { mode: FILE_MODE, flag: 'wx', flush: true })
        })
        crashPoint('payload-bulk.drafts-synced')
        await inParallel(PARALLEL_SYNCS, directories, async (path) => {
          await mkdir(path, { recursive: true, mode: DIRECTORY_MODE })
        })
        await inParallel(PARALLEL_SYNCS, writes, ({ draft, place }) => rename(draft, place))
        crashPoint('payload-bulk.renamed')
        await inParallel(PARALLEL_SYNCS, directories, syncDirectory)
        await syncDirectory(this.directory)
      } catch (thrown) {
        await inParallel(PARALLEL_SYNCS, writes, ({ draft, place }) => removeQuietly(draft, dirname(place)))
        throw thrown
      }
    })
  }

  async open(
    messageId: string,
    stage: PayloadStage,
    options: OpenOptions = {},
  ): Promise<Readable | undefined> {
    const place = this.#place(messageId, stage)
    const what = `The payload ${messageId}/${stage}`
    return asStorageError(`${what} cannot be read`, LOCAL, async () => {
      const file = await open(place, 'r').catch(unlessMissing)
      if (file === undefined) return undefined
      // A buffer of the whole chunk for every small file would keep the garbage collector at work.
      const { size } = await file.stat().catch(async (thrown: unknown) => {
        await file.close()
        throw thrown
      })
      const bytes = file.createReadStream({ highWaterMark: Math.min(size + 1, CHUNK_BYTES) })
      // The reader of the second stream sees the errors of the first.
      return pass(bytes, new Verify({ what, sha256: options.sha256, reading: LOCAL }), () => undefined)
    })
  }

  async delete(messageId: string): Promise<void> {
    const path = join(this.directory, checkedMessageId(messageId))
    await asStorageError(`The payloads of ${messageId} cannot be deleted`, LOCAL, async () => {
      await rm(path, { recursive: true, force: true })
      await syncDirectory(this.directory)
    })
  }

  async check(began?: (step: CheckStep) => void): Promise<StoreCheck> {
    try {
      if (!this.#isPrepared) await this.#prepare()
    } catch (thrown) {
      return { ok: false, step: 'write', problem: problemOf(thrown), kind: kindOf(thrown) }
    }
    return checkStore(this, began)
  }

  async *messageIds(): AsyncGenerator<string> {
    for await (const name of this.#namesIn(this.directory)) if (isMessageId(name)) yield name
  }

  unfinished(): AsyncIterable<string> {
    return this.#namesIn(this.#drafts)
  }

  async discard(unfinished: string): Promise<void> {
    if (basename(unfinished) !== unfinished || /^\.{0,2}$/.test(unfinished))
      throw new StorageError(`${JSON.stringify(unfinished)} is no draft`)
    await asStorageError(`The draft ${unfinished} cannot be deleted`, LOCAL, async () => {
      await rm(join(this.#drafts, unfinished), { recursive: true, force: true })
    })
  }

  close(): void {
    // A file is open only while it is read or written.
  }

  async #prepare(): Promise<void> {
    await asStorageError(`The payload directory ${this.directory} cannot be used`, LOCAL, async () => {
      await makeDirectory(this.#drafts, DIRECTORY_MODE)
      await syncDirectory(dirname(this.directory))
    })
    this.#isPrepared = true
  }

  async *#namesIn(path: string): AsyncGenerator<string> {
    const entries = await asStorageError(`${path} cannot be listed`, LOCAL, () => opendir(path))
    for await (const { name } of entries) yield name
  }

  #place(messageId: string, stage: PayloadStage): string {
    return join(this.directory, ...payloadName(messageId, stage))
  }

  #draft(): string {
    return join(this.#drafts, randomUUID())
  }
}

async function writeBytes(path: string, bytes: Buffer): Promise<StoredPayload> {
  await writeFile(path, bytes, { mode: FILE_MODE, flag: 'wx', flush: true })
  return { sizeBytes: bytes.length, sha256: hash('sha256', bytes, 'hex') }
}

async function writeStream(path: string, source: Readable): Promise<StoredPayload> {
  const measure = new Measure()
  const file = await open(path, 'wx', FILE_MODE)
  await pipeline(fromSource(source), measure, new FileSink(file))
  return measure.result()
}

/** The directory may go again at once: with another stage of the message, whose write has failed. */
async function intoPlace(draft: string, place: string): Promise<void> {
  for (let left = PLACING_TRIES; ; left -= 1) {
    await mkdir(dirname(place), { recursive: true, mode: DIRECTORY_MODE })
    try {
      return await rename(draft, place)
    } catch (thrown) {
      if (left <= 1) throw thrown
      unlessMissing(thrown)
    }
  }
}

/** Removes a draft, and the directory of its message unless something lies in it. A failure of that hides no other. */
async function removeQuietly(draft: string, directory: string): Promise<void> {
  await rm(draft, { force: true }).catch(() => undefined)
  await rmdir(directory).catch(() => undefined)
}

/** Another file system, or a bare mount point, lacks the folder of drafts: nothing else here goes by a missing name. */
function localProblemOf(thrown: unknown): string {
  const drafts = missingDrafts(thrown)
  return drafts === undefined
    ? problemOf(thrown)
    : `The directory ${DRAFTS} of the storage is missing: is another file system, or none, mounted here? Mount the one that holds the payloads; if payloads are to be stored here from now on, make ${DRAFTS} in it or restart (ENOENT, ${drafts})`
}

/** The folder of drafts, when a draft could not be made in it or it could not be listed because it is not there. */
function missingDrafts(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error)) return undefined
  const { code, syscall, path } = thrown as NodeJS.ErrnoException
  if (code !== 'ENOENT' || path === undefined) return undefined
  if (syscall === 'opendir' && basename(path) === DRAFTS) return path
  return syscall === 'open' && basename(dirname(path)) === DRAFTS ? dirname(path) : undefined
}

function unlessMissing(thrown: unknown): undefined {
  if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT') return undefined
  throw thrown
}
