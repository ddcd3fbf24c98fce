import { OperatorError } from '../runtime/errors.ts'

/**
 * What is wrong with a storage. The first four concern the storage as a whole: what was refused may succeed later without
 * being changed, so a source waits and keeps what it has. The others concern one payload, or nothing that waiting helps.
 */
export const STORAGE_PROBLEMS = [
  /** No space, or no quota, is left. */
  'full',
  /** The device or the service fails, or a file system takes no writes, as after an error of its device. */
  'failing',
  /** Nobody answers, or what should be there is not mounted. */
  'unreachable',
  /** Credentials, rights or the place itself are not accepted. */
  'refused',
  /** The stored bytes are not those that were stored. */
  'damaged',
  /** A record says that it is stored, and it is not. */
  'missing',
  /** What was to be stored could not be read to its end. */
  'source',
  'unusable',
] as const
export type StorageProblem = (typeof STORAGE_PROBLEMS)[number]

const OF_THE_WHOLE_STORE: ReadonlySet<StorageProblem> = new Set(['full', 'failing', 'unreachable', 'refused'])

interface StorageErrorOptions extends ErrorOptions {
  readonly problem?: StorageProblem
  readonly reason?: string
}

/**
 * What storage stands on cannot be used: a database, a directory, a bucket, a key. The message is one sentence for the
 * operator, without credentials; whoever starts the process prints it alone.
 */
export class StorageError extends OperatorError {
  override readonly name = 'StorageError'
  readonly problem: StorageProblem
  /** The part of the message that says why, without what was tried. */
  readonly reason: string

  constructor(message: string, options: StorageErrorOptions = {}) {
    const { problem = 'unusable', reason = message, ...rest } = options
    super(message, rest)
    this.problem = problem
    this.reason = reason
  }
}

/** Whether the payload store as a whole cannot be used now, so that whoever brings something waits and tries again. */
export function isStoreUnavailable(thrown: unknown): thrown is StorageError {
  return thrown instanceof StorageError && OF_THE_WHOLE_STORE.has(thrown.problem)
}

/** Whether what is stored is not what was stored: reading it again mends nothing. */
export function isDamage(thrown: unknown): thrown is StorageError {
  return thrown instanceof StorageError && thrown.problem === 'damaged'
}
