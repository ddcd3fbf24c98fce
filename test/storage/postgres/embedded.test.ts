import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { mkdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createLog } from '../../../runtime/log.ts'
import { startEmbedded, type EmbeddedServer } from '../../../storage/postgres/embedded.ts'
import { serverAccount } from '../../../storage/postgres/embedded/account.ts'
import { openPool, query } from '../../../storage/postgres/pool.ts'
import type { Teardown } from '../../support/database.ts'
import {
  isAlive,
  isRoot,
  ORDINARY_USER,
  ordinaryUserCanRun,
  runScript,
  temporaryDirectory,
  until,
} from '../../support/processes.ts'

const log = createLog('silent')
// What root does differently can be seen as root alone, and switching to an ordinary user too.
const rootTest = isRoot ? t.test.bind(t) : undefined
const ordinaryUserTest = isRoot && ordinaryUserCanRun() ? t.test.bind(t) : undefined

async function start(
  t: Teardown,
  directory: string,
  onExit?: (reason: string) => void,
): Promise<EmbeddedServer> {
  const server = await startEmbedded({ directory, log, ...(onExit === undefined ? {} : { onExit }) })
  t.teardown(() => server.stop())
  return server
}

async function rowsOf<Row extends object>(url: string, text: string): Promise<Row[]> {
  const pool = openPool({ url, size: 1, applicationName: 'test', log })
  try {
    return await query<Row>(pool, text)
  } finally {
    await pool.end()
  }
}

const setting = async (url: string, name: string) =>
  (await rowsOf<{ value: string }>(url, `select current_setting('${name}') as value`))[0]?.value

const socketDirectory = (server: EmbeddedServer) => new URL(server.url).searchParams.get('host') ?? ''

async function runningIn(t: Teardown, directory: string, user?: number) {
  const script = runScript(t, 'embedded-child.ts', [directory], user)
  const line = await script.line()
  const said = JSON.parse(line ?? '{}') as { url: string; pid: number; reason?: string }
  return { script, ...said }
}

void t.test('the embedded server is durable, private and keeps its records', async (t) => {
  const directory = await temporaryDirectory(t)
  const server = await start(t, directory)
  t.equal(await setting(server.url, 'listen_addresses'), '')
  t.equal(await setting(server.url, 'fsync'), 'on')
  t.equal(await setting(server.url, 'synchronous_commit'), 'on')
  t.equal(await setting(server.url, 'data_checksums'), 'on')
  t.equal(await setting(server.url, 'server_encoding'), 'UTF8')
  t.same(await rowsOf(server.url, 'select rolsuper from pg_roles where rolname = current_user'), [
    { rolsuper: false },
  ])
  t.same(await rowsOf(server.url, `select lower('Ä') = 'ä' as folds`), [{ folds: true }])
  t.equal((await stat(socketDirectory(server))).mode & 0o777, 0o700)
  t.equal((await stat(join(directory, 'postgresql'))).mode & 0o777, 0o700)
  t.equal((await stat(join(directory, 'postgresql.password'))).mode & 0o777, 0o600)

  const wrong = new URL(server.url)
  wrong.password = 'wrong'
  await t.rejects(rowsOf(wrong.href, 'select 1'), /password authentication failed/)

  await rowsOf(server.url, 'create table kept as select 7 as n')
  await Promise.all([server.stop(), server.stop()])
  t.notOk(isAlive(server.pid), 'the server has ended when stop resolves')
  t.notOk(existsSync(socketDirectory(server)), 'its socket directory is gone')
  const again = await start(t, directory)
  t.same(await rowsOf(again.url, 'select n from kept'), [{ n: 7 }])
})

void rootTest?.(
  'a server of root runs as another account, below a folder that only root may enter',
  async (t) => {
    const locked = await temporaryDirectory(t)
    const server = await start(t, join(locked, 'deeper', 'data'))
    t.not((await stat(`/proc/${server.pid}`)).uid, 0)
    t.equal(await readlink(`/proc/${server.pid}/cwd`), join(locked, 'deeper', 'data', 'postgresql'))
    t.same(await rowsOf(server.url, 'select 1 as one'), [{ one: 1 }])
  },
)

void ordinaryUserTest?.('an ordinary user runs it under the own account', async (t) => {
  const directory = await temporaryDirectory(t, ORDINARY_USER)
  const { script, pid } = await runningIn(t, directory, ORDINARY_USER)
  t.equal((await stat(`/proc/${pid}`)).uid, ORDINARY_USER)
  await script.kill('SIGKILL')
  t.ok(isAlive(pid), 'the server outlives the killed process')
  const second = await runningIn(t, directory, ORDINARY_USER)
  t.notOk(isAlive(pid), 'the next one has ended it')
  second.script.child.kill('SIGTERM')
  await until(() => !isAlive(second.pid))
})

void t.test(
  'a server that a killed process left is ended by the next start, and what was committed is there',
  async (t) => {
    const directory = await temporaryDirectory(t)
    const first = await runningIn(t, directory)
    await rowsOf(first.url, 'create table kept as select 7 as n')
    const left = new URL(first.url).searchParams.get('host') ?? ''
    await first.script.kill('SIGKILL')
    t.ok(isAlive(first.pid))
    const server = await start(t, directory)
    t.notOk(isAlive(first.pid))
    t.notOk(existsSync(left), 'and its socket directory is removed')
    t.same(await rowsOf(server.url, 'select n from kept'), [{ n: 7 }])
  },
)

void t.test('a server that was killed with its process recovers', async (t) => {
  const directory = await temporaryDirectory(t)
  const first = await runningIn(t, directory)
  await rowsOf(first.url, 'create table kept as select 7 as n')
  await first.script.kill('SIGKILL')
  process.kill(first.pid, 'SIGKILL')
  const server = await start(t, directory)
  t.same(await rowsOf(server.url, 'select n from kept'), [{ n: 7 }])
})

void t.test('a pid file that names a stranger neither stops the start nor harms the stranger', async (t) => {
  const directory = await temporaryDirectory(t)
  const first = await runningIn(t, directory)
  const pidFile = join(directory, 'postgresql', 'postmaster.pid')
  const text = await readFile(pidFile, 'utf8')
  await first.script.kill('SIGKILL')
  process.kill(first.pid, 'SIGKILL')
  await until(() => !isAlive(first.pid))
  const account = await serverAccount()
  const identity = account === undefined ? {} : { uid: account.uid, gid: account.gid }
  const stranger = spawn('sleep', ['600'], { ...identity, stdio: 'ignore', cwd: '/' })
  t.teardown(async () => void stranger.kill())
  await writeFile(pidFile, text.replace(/^\d+/, String(stranger.pid)))
  const server = await start(t, directory)
  t.same(await rowsOf(server.url, 'select 1 as one'), [{ one: 1 }])
  t.equal(stranger.exitCode, null)
  t.equal(stranger.signalCode, null)
})

void t.test('a server that ends by itself is reported', async (t) => {
  const exit = Promise.withResolvers<string>()
  const server = await start(t, await temporaryDirectory(t), exit.resolve)
  process.kill(server.pid, 'SIGKILL')
  t.match(await exit.promise, /ended by SIGKILL/)
  t.notOk(existsSync(socketDirectory(server)))
})

void t.test('a stop that was asked for is no exit to report', async (t) => {
  const reports: string[] = []
  const server = await start(t, await temporaryDirectory(t), (reason) => reports.push(reason))
  await server.stop()
  t.same(reports, [])
})

void t.test('a cluster whose making was cut off is made anew', async (t) => {
  const directory = await temporaryDirectory(t)
  await mkdir(join(directory, 'postgresql.new', 'base'), { recursive: true })
  await writeFile(join(directory, 'postgresql.new', 'PG_VERSION'), '18\n')
  const server = await start(t, directory)
  t.same(await rowsOf(server.url, 'select 1 as one'), [{ one: 1 }])
  t.notOk(existsSync(join(directory, 'postgresql.new')))
})

void t.test('failures are one sentence', async (t) => {
  const directory = await temporaryDirectory(t)
  const server = await start(t, directory)
  await server.stop()
  const sentence = (reason: RegExp) => ({ name: 'StorageError', message: reason })

  await t.test('a cluster of another version', async (t) => {
    const file = join(directory, 'postgresql', 'PG_VERSION')
    await writeFile(file, '17\n')
    await t.rejects(
      startEmbedded({ directory, log }),
      sentence(/was made by PostgreSQL 17, the installed one is 18/),
    )
    await writeFile(file, '18\n')
  })
  await t.test('a broken cluster', async (t) => {
    const control = join(directory, 'postgresql', 'global', 'pg_control')
    const bytes = await readFile(control)
    await rm(control)
    await t.rejects(startEmbedded({ directory, log }), sentence(/does not start in .*pg_control/))
    await writeFile(control, bytes)
  })
  await t.test('a lost password', async (t) => {
    await rm(join(directory, 'postgresql.password'))
    await t.rejects(startEmbedded({ directory, log }), sentence(/password of the database cannot be read/))
  })
  await t.test('a place that is no directory', async (t) => {
    await t.rejects(
      startEmbedded({ directory: '/dev/null/x', log }),
      sentence(/\/dev\/null\/x cannot be made/),
    )
  })
  if (ordinaryUserTest !== undefined) {
    const { reason } = await runningIn(t, directory, ORDINARY_USER)
    t.match(reason, /data directory .* cannot be written: EACCES/, 'a directory without write permission')
  }
})

void t.test('a full disk is one sentence, and the start succeeds when there is room', async (t) => {
  const disk = await temporaryDirectory(t)
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', disk]).status === 0
  if (!mounted) {
    t.comment('Left out: this needs the right to mount a file system')
    return
  }
  t.teardown(async () => void spawnSync('umount', ['-l', disk]))
  await t.rejects(startEmbedded({ directory: disk, log }), {
    name: 'StorageError',
    message: /cannot be made in .*No space left on device/,
  })
  spawnSync('mount', ['-o', 'remount,size=400m', disk])
  const server = await startEmbedded({ directory: disk, log })
  t.same(await rowsOf(server.url, 'select 1 as one'), [{ one: 1 }])
  await server.stop()
  t.same(readdirSync(disk).toSorted(), ['postgresql', 'postgresql.password'])
})
