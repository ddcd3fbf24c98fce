import type { Readable } from 'node:stream'
import { reasonOf } from '../../runtime/errors.ts'
import { StorageError, type StorageProblem } from '../storage-error.ts'

/** How a kind of store reads what it was thrown. */
export interface Reading {
  /** In words for an operator, without credentials. */
  readonly problemOf: (thrown: unknown) => string
  readonly kindOf: (thrown: unknown) => StorageProblem
}

/** What was to be stored broke off; the store is not to blame. */
class SourceFailure extends Error {
  override readonly name = 'SourceFailure'
}

/** Passes a source on and marks its failures, which may look like those of a store: both read files and sockets. */
export async function* fromSource(source: Readable): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) yield chunk
  } catch (thrown) {
    throw new SourceFailure('The source failed', { cause: thrown })
  }
}

/** Does something with a store; what fails is told as one sentence that begins with `what`. */
export async function asStorageError<T>(what: string, reading: Reading, act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (thrown) {
    throw storageErrorOf(what, reading, thrown)
  }
}

export function storageErrorOf(what: string, reading: Reading, thrown: unknown): StorageError {
  if (thrown instanceof StorageError) return thrown
  if (thrown instanceof SourceFailure) {
    const { cause } = thrown
    return new StorageError(`${what}: ${reasonOf(cause)}`, { cause, problem: 'source' })
  }
  const reason = reading.problemOf(thrown)
  return new StorageError(`${what}: ${reason}`, { cause: thrown, problem: reading.kindOf(thrown), reason })
}
