import type { FileHandle } from 'node:fs/promises'
import { Writable } from 'node:stream'
import { callbackify } from 'node:util'

/** What goes to the file system in one: a write costs more than its bytes. */
const WRITE_BYTES = 512 * 1024
/** Of chunks so small that they take more memory than their bytes. */
const WRITE_CHUNKS = 512
/** So much of a large file is on its way to the disk at a time, while more is written. */
const SYNC_EVERY_BYTES = 16 * 1024 * 1024

type Done = (error?: Error | null) => void

/**
 * Writes a file in few, large pieces, each while the next one gathers, and lets the disk begin with them long before its
 * end: the last sync, which is waited for, would otherwise find nearly all of the file in memory. A sync that fails fails
 * the writing: it may be told of only once. When it has finished, the disk has all; the file is closed in any case.
 */
export class FileSink extends Writable {
  readonly #file: FileHandle
  #gathered: Buffer[] = []
  #gatheredBytes = 0
  #unsyncedBytes = 0
  /** The write and the sync under way. A failure ends the stream; they themselves never reject. */
  #writing: Promise<void> = Promise.resolve()
  #syncing: Promise<void> | null = null

  constructor(file: FileHandle) {
    super({ highWaterMark: WRITE_BYTES })
    this.#file = file
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#gathered.push(chunk)
    this.#gatheredBytes += chunk.length
    if (this.#gatheredBytes < WRITE_BYTES && this.#gathered.length < WRITE_CHUNKS) return done()
    callbackify(async () => {
      await this.#writing
      this.#writeGathered()
    })(done)
  }

  override _final(done: Done): void {
    callbackify(() => this.#finish())(done)
  }

  override _destroy(error: Error | null, done: Done): void {
    callbackify(() => this.#file.close())((failure) => done(error ?? failure))
  }

  #writeGathered(): void {
    if (this.destroyed) return
    const chunks = this.#gathered
    this.#unsyncedBytes += this.#gatheredBytes
    this.#gathered = []
    this.#gatheredBytes = 0
    this.#writing = this.#endingOnFailure(writeAll(this.#file, chunks))
    if (this.#unsyncedBytes < SYNC_EVERY_BYTES || this.#syncing !== null) return
    this.#unsyncedBytes = 0
    this.#syncing = this.#endingOnFailure(this.#file.datasync()).finally(() => {
      this.#syncing = null
    })
  }

  async #finish(): Promise<void> {
    await this.#writing
    if (this.#gatheredBytes > 0) this.#writeGathered()
    await this.#writing
    await this.#syncing
    if (!this.destroyed) await this.#file.sync()
  }

  async #endingOnFailure(work: Promise<void>): Promise<void> {
    try {
      await work
    } catch (thrown) {
      this.destroy(thrown instanceof Error ? thrown : new Error(String(thrown)))
    }
  }
}

/** The file system may take only some of it, as where the disk becomes full: what it says to the rest tells why. */
async function writeAll(file: FileHandle, chunks: readonly Buffer[]): Promise<void> {
  let rest = chunks
  while (rest.length > 0) {
    const { bytesWritten } = await file.writev(rest)
    rest = behind(rest, bytesWritten)
  }
}

function behind(chunks: readonly Buffer[], bytes: number): readonly Buffer[] {
  let left = bytes
  const index = chunks.findIndex((chunk) => {
    if (left < chunk.length) return true
    left -= chunk.length
    return false
  })
  if (index < 0) return []
  const [first = Buffer.alloc(0), ...others] = chunks.slice(index)
  return [first.subarray(left), ...others]
}
