import { execFileSync } from 'node:child_process'
import { chmod, cp, readdir, rm, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import t from 'tap'
import { createLog } from '../../../runtime/log.ts'
import { runAs, serverAccount } from '../../../storage/postgres/embedded/account.ts'
import { findBinaries } from '../../../storage/postgres/embedded/binaries.ts'
import {
  copiedBinaries,
  installedPackage,
  type PostgresPackage,
} from '../../../storage/postgres/embedded/package.ts'
import type { Teardown } from '../../support/database.ts'
import { isRoot, temporaryDirectory } from '../../support/processes.ts'

const log = createLog('silent')

/** The package as npm unpacks it when it runs no install scripts: without links. */
async function unpacked(t: Teardown): Promise<PostgresPackage> {
  const { root: from, version, binaries } = await installedPackage()
  const root = await temporaryDirectory(t)
  await cp(from, root, { recursive: true, verbatimSymlinks: true })
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) await rm(join(entry.parentPath, entry.name))
  }
  return { root, version, binaries: copiedBinaries(binaries, from, root) }
}

const rootTest = isRoot ? t.test.bind(t) : undefined

void t.test('links that npm did not make are made in place', async (t) => {
  const installed = await unpacked(t)
  const copies = await temporaryDirectory(t)
  t.same(await findBinaries({ account: undefined, copies, installed, log }), installed.binaries)
  t.same(await readdir(copies), [])
})

void rootTest?.('programs that the account of the server cannot reach are copied once', async (t) => {
  const installed = await unpacked(t)
  const account = await serverAccount()
  const copies = await temporaryDirectory(t)
  await chmod(copies, 0o755)
  const found = await findBinaries({ account, copies, installed, log })
  t.equal(
    relative(copies, found.postgres),
    join(`postgresql-${installed.version}`, 'native', 'bin', 'postgres'),
  )
  const version = execFileSync(found.postgres, ['--version'], { ...runAs(account, '/'), encoding: 'utf8' })
  t.match(version, /PostgreSQL/)
  t.equal((await stat(found.postgres)).uid, 0, 'the account cannot change them')
  const before = await stat(found.postgres)
  t.same(await findBinaries({ account, copies, installed, log }), found)
  t.equal((await stat(found.postgres)).ino, before.ino)
  t.same(await readdir(copies), [`postgresql-${installed.version}`])
})

void rootTest?.('of several that copy at once nobody takes away what another runs', async (t) => {
  const installed = await unpacked(t)
  const account = await serverAccount()
  const copies = await temporaryDirectory(t)
  await chmod(copies, 0o755)
  const copying = [1, 2, 3].map(() => findBinaries({ account, copies, installed, log }))
  const first = await Promise.race(copying)
  const { ino } = await stat(first.postgres)
  for (const found of await Promise.all(copying)) t.same(found, first)
  t.equal((await stat(first.postgres)).ino, ino)
  t.same(await readdir(copies), [`postgresql-${installed.version}`])
})

void rootTest?.('a copy that does not run is replaced', async (t) => {
  const installed = await unpacked(t)
  const account = await serverAccount()
  const copies = await temporaryDirectory(t)
  await chmod(copies, 0o755)
  const found = await findBinaries({ account, copies, installed, log })
  await rm(join(copies, `postgresql-${installed.version}`, 'native', 'lib'), { recursive: true })
  t.same(await findBinaries({ account, copies, installed, log }), found)
  t.match(
    execFileSync(found.postgres, ['--version'], { ...runAs(account, '/'), encoding: 'utf8' }),
    /PostgreSQL/,
  )
  t.same(await readdir(copies), [`postgresql-${installed.version}`])
})

void t.test('programs that do not run are one sentence', async (t) => {
  const installed = await unpacked(t)
  const copies = await temporaryDirectory(t)
  await rm(join(installed.root, 'native', 'lib'), { recursive: true })
  await t.rejects(findBinaries({ account: undefined, copies, installed, log }), {
    name: 'StorageError',
    message: /^The (embedded )?PostgreSQL .*(does not run on this system|cannot be copied)/,
  })
})
