import { createHash } from 'node:crypto'
import { Transform } from 'node:stream'
import { StorageError } from '../storage-error.ts'
import type { StoredPayload } from './store.ts'

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

/** Passes bytes on and fails at their end when they are not those that were stored. */
export class Verify extends Transform {
  readonly #hash = createHash('sha256')
  readonly #sha256: string
  readonly #what: string

  constructor(sha256: string, what: string) {
    super()
    this.#sha256 = sha256
    this.#what = what
  }

  override _transform(
    chunk: Buffer,
    _encoding: BufferEncoding,
    done: (error: null, chunk: Buffer) => void,
  ): void {
    this.#hash.update(chunk)
    done(null, chunk)
  }

  override _flush(done: (error: Error | null) => void): void {
    done(this.#hash.digest('hex') === this.#sha256 ? null : differs(this.#what))
  }
}

export function differs(what: string): StorageError {
  return new StorageError(`${what} differs from what was stored`)
}
