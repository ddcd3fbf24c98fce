import type { FileHandle } from 'node:fs/promises'
import { Transform } from 'node:stream'

/** So much of a large file is on its way to the disk at a time, while more is written. */
const SYNC_EVERY_BYTES = 16 * 1024 * 1024

/**
 * Passes bytes on to a file and lets the disk begin with them long before their end: the last sync, which is waited for,
 * would otherwise find nearly all of them in memory. A sync that fails fails the writing: it may be told of only once.
 */
export class EarlySync extends Transform {
  readonly #file: FileHandle
  #passedBytes = 0
  #syncing = false
  /** Waits for the sync that is under way. */
  #synced: (() => void) | null = null

  constructor(file: FileHandle) {
    super()
    this.#file = file
  }

  override _transform(
    chunk: Buffer,
    _encoding: BufferEncoding,
    done: (error: null, chunk: Buffer) => void,
  ): void {
    this.#passedBytes += chunk.length
    if (this.#passedBytes >= SYNC_EVERY_BYTES && !this.#syncing) {
      this.#passedBytes = 0
      this.#syncing = true
      void this.#sync()
    }
    done(null, chunk)
  }

  override _flush(done: () => void): void {
    if (this.#syncing) this.#synced = done
    else done()
  }

  async #sync(): Promise<void> {
    try {
      await this.#file.datasync()
    } catch (thrown) {
      this.destroy(thrown instanceof Error ? thrown : new Error(String(thrown)))
    }
    this.#syncing = false
    this.#synced?.()
  }
}
