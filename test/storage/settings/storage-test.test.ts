import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../../runtime/clock.ts'
import { openPayloadStore } from '../../../storage/payloads/open-store.ts'
import { StorageTest } from '../../../storage/payloads/storage-test.ts'
import type { StorageSettings } from '../../../storage/settings/storage-settings.ts'
import { ManualClock } from '../../runtime/manual-clock.ts'
import { isAlive, temporaryDirectory, until } from '../../support/processes.ts'
import { reservePort } from '../../support/reserved-port.ts'

const LIMIT_MS = 60_000

function local(directory: string): StorageSettings {
  return {
    storage_backend: 'local',
    storage_local_directory: directory,
    storage_s3_bucket: '',
    storage_s3_region: '',
    storage_s3_endpoint: '',
  }
}

/** Tests of directories on a file system that hangs until the file `back` lies in the directory. */
async function hanging(t: Test, ...names: readonly string[]) {
  const place = await temporaryDirectory(t)
  const directories = names.map((name) => join(place, name))
  for (const directory of directories) await mkdir(directory)
  const clock = new ManualClock()
  const program = new URL('./hanging-probe.ts', import.meta.url)
  const test = new StorageTest({ clock, program, answerLimitMs: 1 })
  /** The processes that were started for a directory. */
  const processes = async (directory: string): Promise<number[]> =>
    (await readFile(join(directory, 'begun'), 'utf8')).trim().split('\n').map(Number)
  const comeBack = (directory: string): Promise<void> => writeFile(join(directory, 'back'), '')
  /** Asks again until the process has told that it began to write. */
  const untilItHangs = (directory: string): Promise<void> =>
    until(async () => {
      const running = test.run(local(directory))
      clock.advance(1)
      const result = await running
      return !result.ok && result.step === 'write'
    }, LIMIT_MS)
  return { directories, clock, test, processes, comeBack, untilItHangs }
}

t.test('a storage that hangs has failed in time, in the step that hangs', async (t) => {
  const { directories, clock, test, comeBack, untilItHangs } = await hanging(t, 'a')
  const [directory = ''] = directories
  await untilItHangs(directory)
  const running = test.run(local(directory))
  clock.advance(1)
  t.same(await running, {
    ok: false,
    step: 'write',
    problem: 'The storage did not answer within 0.001 s',
  })
  await comeBack(directory)
  t.same(await test.run(local(directory)), { ok: true }, 'who asks when it comes back is told so')
})

t.test('tests of one directory share one process', async (t) => {
  const { directories, test, processes, comeBack, untilItHangs } = await hanging(t, 'a')
  const [directory = ''] = directories
  await untilItHangs(directory)
  const shared = [test.run(local(directory)), test.run(local(`${directory}/.`))]
  t.equal((await processes(directory)).length, 1)
  await comeBack(directory)
  t.same(await Promise.all(shared), [{ ok: true }, { ok: true }])
})

t.test('a test after an answer looks anew, while the process of the last one still ends', async (t) => {
  const directory = await temporaryDirectory(t)
  const program = new URL('./lingering-probe.ts', import.meta.url)
  const test = new StorageTest({ clock: systemClock, program, answerLimitMs: LIMIT_MS })
  t.match(await test.run(local(directory)), { ok: false, problem: 'The file system is full' })
  await writeFile(join(directory, 'mended'), '')
  t.same(await test.run(local(directory)), { ok: true })
})

t.test('a process that never comes back is killed, and the next test has a new one', async (t) => {
  const { directories, clock, test, processes, untilItHangs } = await hanging(t, 'a')
  const [directory = ''] = directories
  await untilItHangs(directory)
  const [first = 0] = await processes(directory)
  t.ok(isAlive(first))
  clock.advance(60_000)
  await until(() => !isAlive(first), LIMIT_MS)
  await until(async () => {
    const running = test.run(local(directory))
    clock.advance(1)
    await running
    return (await processes(directory)).length === 2
  }, LIMIT_MS)
})

t.test('at most four directories hang at the same time', async (t) => {
  const { directories, test, comeBack, untilItHangs } = await hanging(t, 'a', 'b', 'c', 'd', 'e')
  const fifth = directories[4] ?? ''
  for (const directory of directories.slice(0, 4)) await untilItHangs(directory)
  t.same(await test.run(local(fifth)), {
    ok: false,
    step: 'open',
    problem: '4 earlier tests still wait for their storage',
  })
  await comeBack(fifth)
  await comeBack(directories[0] ?? '')
  // As soon as the process of the first is gone.
  await until(async () => (await test.run(local(fifth))).ok, LIMIT_MS)
})

t.test('a process that breaks down is a failed test, in the step that it was in', async (t) => {
  const program = new URL('./broken-probe.ts', import.meta.url)
  const test = new StorageTest({ clock: systemClock, program, answerLimitMs: LIMIT_MS })
  const result = { ok: false, step: 'write', problem: 'The test was cut off: exit code 3' }
  t.same(await test.run(local('/x')), result)
  t.same(await test.run(local('/x')), result)
})

t.test('a program that cannot be started is a failed test', async (t) => {
  const program = new URL('./no-such-probe.ts', import.meta.url)
  const test = new StorageTest({ clock: systemClock, program, answerLimitMs: LIMIT_MS })
  t.match(await test.run(local('/x')), { ok: false, step: 'open', problem: /cut off: exit code 1/ })
})

t.test('a process does not start with a storage that cannot be used', async (t) => {
  const place = await temporaryDirectory(t)
  const file = join(place, 'file')
  await writeFile(file, '')
  await t.rejects(openPayloadStore(local(file), systemClock), {
    name: 'StorageError',
    message: /^The payload directory .*\/file cannot be used: open: A part of the path is a file/,
  })
  const { host, port } = await reservePort()
  const s3 = {
    ...local(''),
    storage_backend: 's3',
    storage_s3_bucket: 'acme',
    storage_s3_region: 'r',
    storage_s3_endpoint: `http://${host}:${port}`,
  } as const
  process.env['AWS_ACCESS_KEY_ID'] = 'an-access-key'
  process.env['AWS_SECRET_ACCESS_KEY'] = 'a-secret-access-key'
  await t.rejects(openPayloadStore(s3, systemClock), {
    name: 'StorageError',
    message: `The S3 bucket acme (r, http://${host}:${port}) cannot be used: open: Nothing listens at the endpoint (ECONNREFUSED)`,
  })
  const { store, problem } = await openPayloadStore(local(join(place, 'new')), systemClock)
  t.equal(problem, null)
  t.same(await store.check(), { ok: true })
})
