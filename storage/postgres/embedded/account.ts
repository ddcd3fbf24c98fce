import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { StorageError } from '../../storage-error.ts'

/**
 * The operating system's account that the server runs as. PostgreSQL refuses to run as root, so a process of root
 * hands it to an unprivileged account; undefined stands for the process's own account.
 */
export type Account = { readonly uid: number; readonly gid: number; readonly name: string } | undefined

const run = promisify(execFile)
const NAME = 'postgres'
const FALLBACK = 'nobody'

/** The account to run the server as. As root, the account `postgres` is made when the system has none. */
export async function serverAccount(): Promise<Account> {
  if (process.platform === 'win32' || process.geteuid?.() !== 0) return undefined
  const existing = await lookUp(NAME)
  if (existing !== undefined) return existing
  await create(NAME)
  const account = (await lookUp(NAME)) ?? (await lookUp(FALLBACK))
  if (account === undefined) {
    throw new StorageError(
      'The embedded PostgreSQL does not run as root, and neither an account "postgres" could be made nor one "nobody" ' +
        'exists; start Waybill as an ordinary user or set DATABASE_URL',
    )
  }
  return account
}

async function lookUp(name: string): Promise<Account> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])])
    const account = { uid: Number(uid.stdout), gid: Number(gid.stdout), name }
    return Number.isInteger(account.uid) && Number.isInteger(account.gid) && account.uid > 0
      ? account
      : undefined
  } catch {
    return undefined
  }
}

/** Makes a system account without a home and a shell; that it failed shows in the next look-up. */
async function create(name: string): Promise<void> {
  try {
    await run('groupadd', ['--system', '--force', name])
    const options = ['--system', '--gid', name, '--no-create-home', '--home-dir', '/nonexistent']
    await run('useradd', [...options, '--shell', '/usr/sbin/nologin', name])
  } catch {
    // No such command, or a system without accounts of its own: the caller falls back.
  }
}

/** The options of `spawn` that run a program as this account, in `directory`, which only root may need to reach. */
export function runAs(account: Account, directory: string): { cwd: string; uid?: number; gid?: number } {
  // libuv changes the directory before it gives up root's rights: the path needs no rights of the account.
  return account === undefined ? { cwd: directory } : { cwd: directory, uid: account.uid, gid: account.gid }
}
