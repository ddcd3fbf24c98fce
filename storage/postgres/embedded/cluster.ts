import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { reasonOf } from '../../../runtime/errors.ts'
import type { Log } from '../../../runtime/log.ts'
import { syncDirectory, writeDurably } from '../../durable-file.ts'
import { StorageError } from '../../storage-error.ts'
import { runAs, serverAccount, type Account } from './account.ts'
import { copiesFor, findBinaries } from './binaries.ts'
import { installedPackage, type Binaries } from './package.ts'
import { makeRuntimeDirectory, removeRuntimeDirectory } from './runtime-directory.ts'

export const SUPERUSER = 'postgres'

/** A database cluster on disk, and what it takes to run it. */
export interface Cluster {
  readonly directory: string
  /** Of the superuser and of the owner of the records. */
  readonly password: string
  readonly account: Account
  readonly binaries: Binaries
}

const run = promisify(execFile)

/**
 * The cluster `<directory>/postgresql`, made when there is none, with its password in `<directory>/postgresql.password`.
 * It is made under another name and then renamed: one that was cut off is made anew.
 */
export async function prepareCluster(directory: string, log: Log): Promise<Cluster> {
  const path = join(directory, 'postgresql')
  const existing = await stat(path).catch(() => undefined)
  const account = await accountFor(existing?.uid, existing?.gid)
  const installed = await installedPackage()
  const binaries = await findBinaries({ account, copies: copiesFor(account, directory), installed, log })
  const passwordFile = join(directory, 'postgresql.password')
  if (existing === undefined) {
    const password = randomBytes(24).toString('base64url')
    await writeDurably(passwordFile, password, 0o600)
    log.info({ directory: path }, 'Making the database')
    await makeCluster(path, password, account, binaries)
    return { directory: path, password, account, binaries }
  }
  await checkVersion(path, binaries)
  const password = await readFile(passwordFile, 'utf8').catch((thrown: unknown) => {
    throw new StorageError(
      `The password of the database cannot be read from ${passwordFile}: ${reasonOf(thrown)}`,
      {
        cause: thrown,
      },
    )
  })
  return { directory: path, password: password.trim(), account, binaries }
}

/** As root, a cluster keeps the account that it was made with. */
async function accountFor(uid: number | undefined, gid: number | undefined): Promise<Account> {
  if (process.geteuid?.() === 0 && uid !== undefined && gid !== undefined && uid !== 0) {
    return { uid, gid, name: String(uid) }
  }
  return serverAccount()
}

/** How the server is told where its cluster is. Another account may be unable to walk there: it starts inside. */
export function clusterArgument(cluster: string, account: Account): string {
  return account !== undefined && process.platform === 'linux' ? '/proc/self/cwd' : cluster
}

/** What the programs see of our environment: nothing that could change the server (PGDATA, LD_LIBRARY_PATH, …). */
export function serverEnvironment(): NodeJS.ProcessEnv {
  const kept = ['PATH', 'SystemRoot', 'TEMP', 'TMP'].map((name) => [name, process.env[name]] as const)
  return { ...Object.fromEntries(kept.filter(([, value]) => value !== undefined)), LC_ALL: 'C', TZ: 'UTC' }
}

async function makeCluster(
  path: string,
  password: string,
  account: Account,
  binaries: Binaries,
): Promise<void> {
  const draft = `${path}.new`
  const runtime = await makeRuntimeDirectory(account)
  try {
    await rm(draft, { recursive: true, force: true })
    await mkdir(draft, { mode: 0o700 })
    const passwordFile = join(runtime, 'password')
    await writeFile(passwordFile, password, { mode: 0o600 })
    if (account !== undefined) {
      await Promise.all([draft, passwordFile].map((owned) => chown(owned, account.uid, account.gid)))
    }
    await initdb(draft, passwordFile, account, binaries)
    await rename(draft, path)
    await syncDirectory(join(path, '..'))
  } finally {
    await removeRuntimeDirectory(runtime)
  }
}

async function initdb(
  draft: string,
  passwordFile: string,
  account: Account,
  binaries: Binaries,
): Promise<void> {
  const options = [
    '-D',
    clusterArgument(draft, account),
    '-U',
    SUPERUSER,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--data-checksums',
    '--encoding=UTF8',
    // Case-insensitive search knows umlauts; sorting is by code point and the same on every system.
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
  ]
  try {
    await run(binaries.initdb, options, { ...runAs(account, draft), env: serverEnvironment() })
  } catch (thrown) {
    const printed = thrown instanceof Error && 'stderr' in thrown ? String(thrown.stderr) : ''
    const lines = printed.split('\n').filter((line) => line !== '')
    const problem =
      lines.find((line) => /error:|fatal:|could not/i.test(line)) ?? lines.at(-1) ?? reasonOf(thrown)
    throw new StorageError(`The database cannot be made in ${draft}: ${problem}`, { cause: thrown })
  }
}

async function checkVersion(path: string, binaries: Binaries): Promise<void> {
  const [made, program] = await Promise.all([
    readFile(join(path, 'PG_VERSION'), 'utf8').catch((thrown: unknown) => {
      throw new StorageError(`The database ${path} cannot be read: ${reasonOf(thrown)}`, { cause: thrown })
    }),
    run(binaries.postgres, ['--version'], { cwd: '/' }),
  ])
  const major = /(\d+)\./.exec(program.stdout)?.[1]
  if (made.trim() === major) return
  throw new StorageError(
    `The database ${path} was made by PostgreSQL ${made.trim()}, the installed one is ${major ?? 'unknown'}; ` +
      'export it with the version of Waybill that made it, or set DATABASE_URL',
  )
}
