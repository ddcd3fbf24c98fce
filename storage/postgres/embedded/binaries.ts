import { execFile } from 'node:child_process'
import { join, parse } from 'node:path'
import { promisify } from 'node:util'
import { reasonOf } from '../../../runtime/errors.ts'
import type { Log } from '../../../runtime/log.ts'
import { StorageError } from '../../storage-error.ts'
import { runAs, type Account } from './account.ts'
import { copiedBinaries, copyPackage, makeSymlinks, type Binaries, type PostgresPackage } from './package.ts'

const run = promisify(execFile)
/** Where copies for another account lie; root alone writes there. */
const COPIES_FOR_ALL = '/var/lib/waybill'

export interface BinariesOptions {
  readonly account: Account
  /** Where a copy is made if one is needed: by default `/var/lib/waybill` for another account than ours. */
  readonly copies: string
  readonly installed: PostgresPackage
  readonly log: Log
}

/** Where copies of the programs lie: the data directory if nobody else has to get there. */
export function copiesFor(account: Account, dataDirectory: string): string {
  return account === undefined ? dataDirectory : COPIES_FOR_ALL
}

/**
 * Finds programs that the account can run: those of the npm package where they are, after links that npm did not
 * make (it may have been told to run no install scripts), or else a copy of them.
 */
export async function findBinaries({ account, copies, installed, log }: BinariesOptions): Promise<Binaries> {
  const { root, version, binaries } = installed
  if ((await problemWith(binaries, account)) === undefined) return binaries
  await makeSymlinks(root).catch((thrown: unknown) => {
    log.debug({ reason: reasonOf(thrown) }, 'The links of the PostgreSQL package cannot be made in place')
  })
  if ((await problemWith(binaries, account)) === undefined) return binaries

  const copy = join(copies, `postgresql-${version}`)
  const copied = copiedBinaries(binaries, root, copy)
  if ((await problemWith(copied, account)) === undefined) return copied
  log.info({ copy }, 'Copying the PostgreSQL programs to where the server can run them')
  const runs = async (): Promise<boolean> => (await problemWith(copied, account)) === undefined
  await copyPackage(root, copy, runs).catch((thrown: unknown) => {
    throw new StorageError(`The PostgreSQL programs cannot be copied to ${copy}: ${reasonOf(thrown)}`, {
      cause: thrown,
    })
  })
  const problem = await problemWith(copied, account)
  if (problem === undefined) return copied
  throw new StorageError(`The embedded PostgreSQL does not run on this system (${problem}); set DATABASE_URL`)
}

/** Why the account cannot run the programs: no way to them, or a shared library that is missing. */
async function problemWith(binaries: Binaries, account: Account): Promise<string | undefined> {
  for (const program of [binaries.postgres, binaries.initdb]) {
    try {
      await run(program, ['--version'], runAs(account, parse(program).root))
    } catch (thrown) {
      const printed = thrown instanceof Error && 'stderr' in thrown ? String(thrown.stderr).trim() : ''
      return printed === '' ? reasonOf(thrown) : (printed.split('\n')[0] ?? printed)
    }
  }
  return undefined
}
