import { reasonOf } from '../../runtime/errors.ts'
import { StorageError, type StorageProblem } from '../storage-error.ts'

/** What the operating system refuses: the kind of it, and words for an operator. */
const KNOWN: Readonly<Record<string, readonly [StorageProblem, string]>> = {
  EACCES: ['refused', 'The account of the process has no right to do this'],
  EDQUOT: ['full', 'The quota of the disk is used up'],
  EEXIST: ['unusable', 'A part of the path is a file, not a directory'],
  EIO: ['failing', 'The device failed'],
  ELOOP: ['unusable', 'The path goes round in circles of symbolic links'],
  EMFILE: ['failing', 'The process has too many files open'],
  ENAMETOOLONG: ['unusable', 'The path is too long'],
  ENFILE: ['failing', 'The system has too many files open'],
  ENODEV: ['unreachable', 'The device is gone'],
  ENOENT: ['unreachable', 'The directory does not exist'],
  ENOSPC: ['full', 'The file system is full'],
  ENOTCONN: ['unreachable', 'The file system is not connected'],
  ENOTDIR: ['unusable', 'A part of the path is a file, not a directory'],
  ENXIO: ['unreachable', 'The device is gone'],
  EPERM: ['refused', 'The account of the process has no right to do this'],
  EROFS: ['failing', 'The file system is read-only'],
  ESTALE: ['unreachable', 'The file system was exchanged under the process'],
  ETIMEDOUT: ['unreachable', 'The file system does not answer'],
}

/** Why a store failed: in words where we have some, always with the system's own. */
export function problemOf(thrown: unknown): string {
  if (thrown instanceof StorageError) return thrown.reason
  const cause = innermost(thrown)
  const reason = reasonOf(cause)
  const words = isUnmakeable(cause) ? 'The directory does not exist and cannot be made' : factsOf(cause)?.[1]
  return words === undefined ? reason : `${words} (${reason})`
}

/** What kind of failure of a file system it is. */
export function kindOf(thrown: unknown): StorageProblem {
  if (thrown instanceof StorageError) return thrown.problem
  return factsOf(innermost(thrown))?.[0] ?? 'unusable'
}

/** Such as below `/proc`; elsewhere nobody tried to make what is missing. */
function isUnmakeable(cause: unknown): boolean {
  if (!(cause instanceof Error)) return false
  const { code, syscall } = cause as NodeJS.ErrnoException
  return code === 'ENOENT' && syscall === 'mkdir'
}

function factsOf(cause: unknown): readonly [StorageProblem, string] | undefined {
  return cause instanceof Error && 'code' in cause ? KNOWN[String(cause.code)] : undefined
}

function innermost(thrown: unknown): unknown {
  let cause = thrown
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause
  return cause
}
