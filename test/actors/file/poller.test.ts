import { appendFile, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock, type Clock } from '../../../runtime/clock.ts'
import { createLog } from '../../../runtime/log.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'
import { failingDisk, mountAt, smallDisk } from '../../support/disks.ts'
import { temporaryDirectory, until } from '../../support/processes.ts'
import { routesTo } from '../../storage/exchange/fixture.ts'
import { startPolling } from './polling.ts'

t.setTimeout(600_000)

/** A poller over `base`, moving to `done`, in a directory of the test. */
async function prepare(t: Test) {
  const { url, pool } = await createTestDatabase(t)
  await routesTo(pool, 'target')
  await query(pool, `insert into organization (name) values ('acme')`)
  await query(pool, `insert into partner (name) values ('globex')`)
  const directory = await temporaryDirectory(t)
  const base = join(directory, 'base')
  const done = join(directory, 'done')
  await mkdir(join(base, 'globex'), { recursive: true })
  const lines: string[] = []
  const told = createLog('silent')
  for (const level of ['info', 'warn', 'error'] as const)
    told[level] = (fields: unknown, message?: string) =>
      void lines.push(`${message ?? ''} ${(fields as { reason?: string }).reason ?? ''}`)
  let heldBack: string | null = null
  const start = async (settings: object = {}, clock: Clock = systemClock) => {
    const options = { databaseUrl: url, nodeId: 'node', directory, log: told, settings, clock }
    const running = await startPolling({ ...options, heldBack: () => heldBack })
    t.teardown(() => running.stop())
  }
  const holdBack = (reason: string | null) => {
    heldBack = reason
  }
  const statuses = async () =>
    (await query<{ status: string }>(pool, 'select status from message order by id')).map(
      ({ status }) => status,
    )
  const payloads = join(directory, 'payloads')
  return { pool, directory, base, done, payloads, lines, start, statuses, holdBack }
}

void t.test('a poller that cannot move a file waits with its message, and goes on when it can', async (t) => {
  const { base, done, start, statuses } = await prepare(t)
  await mkdir(done)
  await writeFile(join(done, 'globex'), 'a file where a directory should be')
  await writeFile(join(base, 'globex', 'a.edi'), 'payload')
  await start()
  await until(async () => (await statuses()).length > 0)
  await rm(join(done, 'globex'))
  await until(async () => (await statuses()).includes('InProgress'))
  t.same(await statuses(), ['InProgress'])
  t.same(await readdir(join(done, 'globex')), ['a.edi'])
})

void t.test('a message whose dispatch failed is dispatched without a restart', async (t) => {
  const { pool, base, start, statuses } = await prepare(t)
  await query(
    pool,
    `create function refuse() returns trigger language plpgsql as $$ begin raise 'not now'; end $$;
     create trigger refuse before update on message for each row execute function refuse()`,
  )
  await writeFile(join(base, 'globex', 'a.edi'), 'payload')
  await start()
  await until(async () => (await statuses()).length > 0)
  await until(async () => (await readdir(join(base, 'globex'))).length === 0)
  await query(pool, 'drop trigger refuse on message')
  await until(async () => (await statuses()).includes('InProgress'))
  t.same(await statuses(), ['InProgress'])
})

void t.test('a poller does not start where a link leads the processed files back to the base', async (t) => {
  const { base, done, start } = await prepare(t)
  await symlink(base, done)
  await t.rejects(start(), { message: /is or lies in/ })
})

void t.test('the same file again, on purpose, is another message, and both are kept', async (t) => {
  const { base, done, start, statuses } = await prepare(t)
  await start()
  for (const count of [1, 2, 3]) {
    await writeFile(join(base, 'globex', '.draft'), 'payload')
    await rename(join(base, 'globex', '.draft'), join(base, 'globex', 'a.edi'))
    await until(async () => (await statuses()).filter((status) => status === 'InProgress').length === count)
  }
  t.same((await readdir(join(done, 'globex'))).toSorted(), ['a (2).edi', 'a (3).edi', 'a.edi'])
})

void t.test('while nothing may be taken in, files stay where they are; then they are taken', async (t) => {
  const { base, start, statuses, holdBack, lines } = await prepare(t)
  holdBack('1000 deliveries or more wait for target')
  await writeFile(join(base, 'globex', 'a.edi'), 'payload')
  await start()
  await until(() => lines.some((line) => line.includes('no files are taken in')))
  t.same(await readdir(join(base, 'globex')), ['a.edi'])
  t.same(await statuses(), [])
  holdBack(null)
  await until(async () => (await statuses()).includes('InProgress'))
  t.same(await readdir(join(base, 'globex')), [])
})

void t.test('a folder that vanishes is waited for, and nothing of it is taken twice', async (t) => {
  const { directory, base, done, start, statuses, lines } = await prepare(t)
  await mkdir(done)
  await writeFile(join(done, 'globex'), 'a file where a directory should be')
  await writeFile(join(base, 'globex', 'a.edi'), 'payload')
  await start()
  await until(async () => (await statuses()).length === 1)
  // As a network folder that is not mounted: another, empty directory is seen.
  await rename(base, join(directory, 'away'))
  await mkdir(base)
  await rm(join(done, 'globex'))
  await until(() => lines.some((line) => line.includes('the folder is another one')))
  await rm(base, { recursive: true })
  await until(() => lines.some((line) => line.includes('A round failed')))
  await rename(join(directory, 'away'), base)
  await until(async () => (await statuses()).includes('InProgress'))
  t.same(await statuses(), ['InProgress'])
  t.same(await readdir(join(done, 'globex')), ['a.edi'])
})

void t.test('while the payload store is full a large file stays, and then it is taken', async (t) => {
  const { base, payloads, start, statuses, lines } = await prepare(t)
  const disk = await smallDisk(t, 1_048_576)
  await symlink(disk, payloads)
  await LocalStore.open(payloads)
  await writeFile(join(disk, 'filler'), Buffer.alloc(900_000))
  await writeFile(join(base, 'globex', 'large.edi'), Buffer.alloc(600_000))
  await start()
  await until(() => lines.some((line) => line.includes('A round failed')))
  t.same(await readdir(join(base, 'globex')), ['large.edi'])
  t.same(await statuses(), [])
  await rm(join(disk, 'filler'))
  await until(async () => (await statuses()).includes('InProgress'))
  t.same(await readdir(join(base, 'globex')), [])
})

void t.test('a file that grows slowly is left alone until it stands still', async (t) => {
  const { pool, base, done, start } = await prepare(t)
  const taken = async (name: string) =>
    (await query(pool, `select from message where file_name = $1 and status = 'InProgress'`, [name])).length
  const growing = join(base, 'globex', 'growing.edi')
  let text = ''
  let isGrowing = true
  const grow = async () => {
    text += 'a line\n'
    await appendFile(growing, 'a line\n')
  }
  await grow()
  const clock: Clock = {
    ...systemClock,
    now: () => systemClock.now(),
    // Between two looks, however long they take.
    sleep: async (ms, signal) => {
      if (isGrowing) await grow()
      await systemClock.sleep(ms, signal)
    },
  }
  await start({ settle_seconds: 1 }, clock)
  for (const name of ['first.edi', 'second.edi', 'third.edi']) {
    await writeFile(join(base, 'globex', name), 'complete')
    await until(async () => (await taken(name)) === 1)
    t.equal(await taken('growing.edi'), 0, `${name} was taken, and the other was not`)
  }
  isGrowing = false
  await until(async () => (await taken('growing.edi')) === 1)
  t.equal(await readFile(join(done, 'globex', 'growing.edi'), 'utf8'), text)
})

void t.test('while the processed files have another disk under them than before, files wait', async (t) => {
  const { directory, base, done, start, statuses, lines } = await prepare(t)
  const disk = await smallDisk(t, 1_048_576)
  await mkdir(done)
  const unmount = mountAt(t, disk, done)
  await start()
  await writeFile(join(base, 'globex', 'a.edi'), 'payload')
  await until(async () => (await statuses()).includes('InProgress'))
  unmount()
  await writeFile(join(base, 'globex', 'b.edi'), 'payload')
  await until(() => lines.some((line) => line.includes('cannot move the file away')))
  t.ok(lines.some((line) => line.includes(`${join(directory, 'done')} is another directory than before`)))
  t.same(await statuses(), ['InProgress', 'Received'])
  t.same(await readdir(done), [], 'nothing lies under its place')
  mountAt(t, disk, done)
  await until(async () => (await statuses()).every((status) => status === 'InProgress'))
  t.same((await readdir(join(disk, 'globex'))).toSorted(), ['a.edi', 'b.edi'])
})

void t.test('while the device of the folder fails its files wait, and then each is taken once', async (t) => {
  const { directory, base, done, payloads, start, statuses, lines } = await prepare(t)
  await LocalStore.open(payloads)
  const disk = await failingDisk(t)
  await rm(base, { recursive: true })
  await mkdir(join(disk.path, 'in', 'globex'), { recursive: true })
  await symlink(join(disk.path, 'in'), base)
  await mkdir(done)
  await writeFile(join(base, 'globex', 'first.edi'), 'x'.repeat(200_000))
  await writeFile(join(base, 'globex', 'second.edi'), 'x'.repeat(900_000))
  await disk.fail()
  await start()
  await until(() => lines.some((line) => line.includes('EIO')))
  t.same(await statuses(), [])
  await disk.recover()
  await until(async () => (await statuses()).filter((status) => status === 'InProgress').length === 2)
  t.same(await statuses(), ['InProgress', 'InProgress'])
  t.same((await readdir(join(directory, 'done', 'globex'))).toSorted(), ['first.edi', 'second.edi'])
})
