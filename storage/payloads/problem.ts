import { reasonOf } from '../../runtime/errors.ts'

/** What the operating system refuses, in words for an operator. */
const WORDS: Readonly<Record<string, string>> = {
  EACCES: 'The account of the process has no right to do this',
  EDQUOT: 'The quota of the disk is used up',
  EEXIST: 'A part of the path is a file, not a directory',
  EIO: 'The device failed',
  ELOOP: 'The path goes round in circles of symbolic links',
  ENAMETOOLONG: 'The path is too long',
  ENOENT: 'The directory does not exist and cannot be made',
  ENOSPC: 'The file system is full',
  ENOTDIR: 'A part of the path is a file, not a directory',
  EPERM: 'The account of the process has no right to do this',
  EROFS: 'The file system is read-only',
  ESTALE: 'The file system was exchanged under the process',
}

/** Why a store failed: in words where we have some, always with the system's own. */
export function problemOf(thrown: unknown): string {
  const cause = innermost(thrown)
  const reason = reasonOf(cause)
  const words = cause instanceof Error && 'code' in cause ? WORDS[String(cause.code)] : undefined
  return words === undefined ? reason : `${words} (${reason})`
}

function innermost(thrown: unknown): unknown {
  let cause = thrown
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause
  return cause
}
