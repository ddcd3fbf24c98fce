import { chown, mkdtemp, realpath, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { StorageError } from '../../storage-error.ts'
import type { Account } from './account.ts'

const PREFIX = 'waybill-postgresql-'
/** `sun_path` holds 104 bytes on macOS and 108 on Linux; `/.s.PGSQL.5432`, six random characters and a zero go off. */
const LONGEST_BASE = 104 - PREFIX.length - 6 - '/.s.PGSQL.5432'.length - 2

/** A private directory of the account with a short path: for the Unix socket, or for a file that initdb reads. */
export async function makeRuntimeDirectory(account: Account): Promise<string> {
  for (const base of new Set([tmpdir(), '/tmp'])) {
    if (Buffer.byteLength(base) > LONGEST_BASE || !(await isReachable(base, account))) continue
    const directory = await mkdtemp(join(base, PREFIX))
    if (account !== undefined) await chown(directory, account.uid, account.gid)
    return directory
  }
  throw new StorageError(
    'The embedded PostgreSQL finds no directory for its socket: the one for temporary files has too long a path or ' +
      'cannot be entered by everybody; set TMPDIR or DATABASE_URL',
  )
}

/** Another account reaches a directory when everybody may enter it and all above it. */
async function isReachable(directory: string, account: Account): Promise<boolean> {
  const path = await realpath(directory).catch(() => undefined)
  if (path === undefined) return false
  if (account === undefined) return true
  for (let at = path; ; at = dirname(at)) {
    const { mode } = await stat(at)
    if ((mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}

/** Removes a runtime directory that a killed process left, and nothing that does not look like one. */
export async function removeRuntimeDirectory(directory: string): Promise<void> {
  if (!basename(directory).startsWith(PREFIX)) return
  await rm(directory, { recursive: true, force: true })
}
