import { hash, randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { pipeline as pass, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { reasonOf } from '../../runtime/errors.ts'
import { makeDirectory, syncDirectory } from '../durable-file.ts'
import type { PayloadStage } from '../exchange/states.ts'
import { StorageError } from '../storage-error.ts'
import { checkStore } from './check.ts'
import { Measure, Verify } from './digest.ts'
import {
  checkedMessageId,
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
const READ_CHUNK_BYTES = 256 * 1024
/** Files synced at the same time in a bulk; libuv's threads do the rest of the bounding. */
const PARALLEL_SYNCS = 16

/** Stages as files `<directory>/<message id>/<stage>`, for the process's own account alone. */
export class LocalStore implements PayloadStore {
  readonly directory: string
  readonly #drafts: string

  private constructor(directory: string) {
    this.directory = directory
    this.#drafts = join(directory, DRAFTS)
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

  /** The same, without trying whether stages can be stored in it. */
  static async prepare(path: string): Promise<LocalStore> {
    const store = new LocalStore(resolve(path))
    await asStorageError(`The payload directory ${store.directory} cannot be used`, async () => {
      await makeDirectory(store.#drafts, DIRECTORY_MODE)
      await syncDirectory(dirname(store.directory))
    })
    return store
  }

  async put(messageId: string, stage: PayloadStage, source: Readable | Buffer): Promise<StoredPayload> {
    const place = this.#place(messageId, stage)
    return asStorageError(`The payload ${messageId}/${stage} cannot be stored`, async () => {
      const draft = this.#draft()
      try {
        const stored = Buffer.isBuffer(source)
          ? await writeBytes(draft, source)
          : await writeStream(draft, source)
        await mkdir(dirname(place), { recursive: true, mode: DIRECTORY_MODE })
        await rename(draft, place)
        await syncDirectory(dirname(place))
        await syncDirectory(this.directory)
        return stored
      } catch (thrown) {
        await rm(draft, { force: true })
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
    await asStorageError(`${items.length} payloads cannot be stored`, async () => {
      try {
        await inParallel(writes, async ({ draft, bytes }) => {
          await writeFile(draft, bytes, { mode: FILE_MODE, flag: 'wx', flush: true })
        })
        await inParallel(directories, async (path) => {
          await mkdir(path, { recursive: true, mode: DIRECTORY_MODE })
        })
        await inParallel(writes, ({ draft, place }) => rename(draft, place))
        await inParallel(directories, syncDirectory)
        await syncDirectory(this.directory)
      } catch (thrown) {
        await inParallel(writes, ({ draft }) => rm(draft, { force: true }))
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
    return asStorageError(`${what} cannot be read`, async () => {
      const file = await open(place, 'r').catch(unlessMissing)
      if (file === undefined) return undefined
      const bytes = file.createReadStream({ highWaterMark: READ_CHUNK_BYTES })
      if (options.sha256 === undefined) return bytes
      // The reader of the second stream sees the errors of the first.
      return pass(bytes, new Verify(options.sha256, what), () => undefined)
    })
  }

  async delete(messageId: string): Promise<void> {
    const path = join(this.directory, checkedMessageId(messageId))
    await asStorageError(`The payloads of ${messageId} cannot be deleted`, async () => {
      await rm(path, { recursive: true, force: true })
      await syncDirectory(this.directory)
    })
  }

  check(began?: (step: CheckStep) => void): Promise<StoreCheck> {
    return checkStore(this, began)
  }

  /**
   * Removes drafts that were not written to for so long: a process that was killed left them. Answers how many. One
   * that is being written is younger than any sensible age.
   */
  async sweep(olderThanMs: number): Promise<number> {
    let swept = 0
    for (const name of await readdir(this.#drafts).catch(() => [])) {
      const path = join(this.#drafts, name)
      const found = await stat(path).catch(unlessMissing)
      if (found === undefined || Date.now() - found.mtimeMs < olderThanMs) continue
      await rm(path, { force: true })
      swept += 1
    }
    return swept
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
  await pipeline(source, measure, createWriteStream(path, { mode: FILE_MODE, flags: 'wx', flush: true }))
  return measure.result()
}

/** Waits for all that it began, also when something fails: nothing goes on behind the caller's back. */
async function inParallel<Item>(items: readonly Item[], act: (item: Item) => Promise<void>): Promise<void> {
  const rest = items.values()
  const work = async () => {
    for (const item of rest) await act(item)
  }
  const workers = Array.from({ length: Math.min(PARALLEL_SYNCS, items.length) }, work)
  const failed = (await Promise.allSettled(workers)).find((outcome) => outcome.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

function unlessMissing(thrown: unknown): undefined {
  if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT') return undefined
  throw thrown
}

async function asStorageError<T>(what: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (thrown) {
    if (thrown instanceof StorageError) throw thrown
    throw new StorageError(`${what}: ${reasonOf(thrown)}`, { cause: thrown })
  }
}
