import { createHash } from 'node:crypto'
import { Transform } from 'node:stream'
import { youngMemoryKeeper } from '../../runtime/young-memory.ts'
import { StorageError } from '../storage-error.ts'
import { storageErrorOf, type Reading } from './failure.ts'
import type { StoredPayload } from './store.ts'

/** What a stream hands on at a time, as far as its source gives so much. */
export const CHUNK_BYTES = 256 * 1024

/** Passes bytes on and measures them. */
export class Measure extends Transform {
  readonly #hash = createHash('sha256')
  #sizeBytes = 0

  override _transform(
    chunk: Buffer,
    _encoding: BufferEncoding,
    done: (error: null, chunk: Buffer) => void,
  ): void {
    this.#hash.update(chunk)
    this.#sizeBytes += chunk.length
    done(null, chunk)
  }

  /** To be called once, when the stream has ended. */
  result(): StoredPayload {
    return { sizeBytes: this.#sizeBytes, sha256: this.#hash.digest('hex') }
  }
}

export interface Expected {
  /** As a sentence names the payload. */
  readonly what: string
  /** Undefined when nobody knows it. */
  readonly sha256: string | undefined
  readonly reading: Reading
}

/**
 * Passes bytes on and fails at their end when they are not those that were stored. The last chunk is handed over only
 * then: who has been given all bytes has been given the right ones. What fails before is a StorageError too.
 */
export class Verify extends Transform {
  readonly #hash = createHash('sha256')
  readonly #expected: Expected
  readonly #keepYoung = youngMemoryKeeper()
  #held: Buffer | null = null

  constructor(expected: Expected) {
    super({ highWaterMark: CHUNK_BYTES })
    this.#expected = expected
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#keepYoung(chunk.length)
    const earlier = this.#held
    if (chunk.length > 0) {
      if (this.#expected.sha256 !== undefined) this.#hash.update(chunk)
      this.#held = chunk
      if (earlier !== null) this.push(earlier)
    }
    done()
  }

  override _flush(done: (error: Error | null, chunk?: Buffer | null) => void): void {
    const { sha256, what } = this.#expected
    if (sha256 === undefined || this.#hash.digest('hex') === sha256) done(null, this.#held)
    else done(differs(what))
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const { what, reading } = this.#expected
    done(error === null ? null : storageErrorOf(`${what} cannot be read`, reading, error))
  }
}

export function differs(what: string): StorageError {
  return new StorageError(`${what} differs from what was stored`, { problem: 'damaged' })
}
