import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { openDataDirectory } from '../../../storage/data-directory/data-directory.ts'
import { secretKeyOf } from '../../../storage/data-directory/secret-key.ts'
import {
  isRoot,
  ORDINARY_USER,
  ordinaryUserCanRun,
  plainNode,
  runScript,
  temporaryDirectory,
} from '../../support/processes.ts'

void t.test('the data directory is made for its owner alone', async (t) => {
  const path = join(await temporaryDirectory(t), 'deeper', 'data')
  const directory = await openDataDirectory(path)
  t.equal(directory.path, path)
  t.equal((await stat(path)).mode & 0o777, 0o700)
  await directory.release()
  await directory.release()
})

void t.test(
  'a second process is refused and told who holds it, until the holder dies in whatever way',
  async (t) => {
    const path = await temporaryDirectory(t)
    const first = runScript(t, 'lock-child.ts', [path])
    t.equal(await first.line(), 'locked')
    const refusal = `The data directory ${path} is in use by another process (pid ${first.child.pid})`
    t.equal(await runScript(t, 'lock-child.ts', [path]).line(), refusal)
    await t.rejects(openDataDirectory(path), { name: 'StorageError', message: refusal })
    await first.kill('SIGKILL')
    const directory = await openDataDirectory(path)
    t.equal(await readFile(join(path, 'waybill.pid'), 'utf8'), `${process.pid}\n`)
    await t.rejects(
      openDataDirectory(path),
      { message: /in use by another process/ },
      'nor twice in one process',
    )
    await directory.release()
    t.notOk(existsSync(join(path, 'waybill.pid')))
  },
)

void t.test('of many processes that start at once one gets it', async (t) => {
  const path = await temporaryDirectory(t)
  const scripts = Array.from({ length: 5 }, () => runScript(t, 'lock-child.ts', [path]))
  const said = await Promise.all(scripts.map((script) => script.line()))
  t.equal(said.filter((line) => line === 'locked').length, 1)
  t.equal(said.filter((line) => /in use by another process/.test(line ?? '')).length, 4)
})

void t.test('who meets the try of another waits for what comes of it', async (t) => {
  const path = await temporaryDirectory(t)
  const elsewhere = await temporaryDirectory(t)
  const other = runScript(t, 'lock-trying-child.ts', [path])
  t.equal(await other.line(), 'trying')
  const opening = openDataDirectory(path)
  // The same steps in another place: when they are done, the first try here is over, too.
  await (await openDataDirectory(elsewhere)).release()
  await other.kill('SIGKILL')
  await (await opening).release()
})

void t.test('the lock prints no warning', async (t) => {
  const path = await temporaryDirectory(t)
  const held = await openDataDirectory(path)
  const [command, args] = plainNode('lock-child.ts', [path])
  const { stderr, status } = spawnSync(command, args, { encoding: 'utf8' })
  t.equal(stderr, '')
  t.equal(status, 0)
  await held.release()
})

void t.test('a place that cannot be used is one sentence', async (t) => {
  const path = await temporaryDirectory(t)
  const file = join(path, 'file')
  await writeFile(file, '')
  const sentence = (message: RegExp) => ({ name: 'StorageError', message })
  await t.rejects(openDataDirectory(file), sentence(/file cannot be made: EEXIST/))
  await t.rejects(openDataDirectory(join(file, 'below')), sentence(/below cannot be made: ENOTDIR/))
})

// Root may write everywhere: it tries as an ordinary user, which must be able to read the project.
const ordinaryUserTest = isRoot && ordinaryUserCanRun() ? t.test.bind(t) : undefined
void ordinaryUserTest?.('a directory without write permission is one sentence', async (t) => {
  const path = await temporaryDirectory(t)
  await chmod(path, 0o755)
  const line = await runScript(t, 'lock-child.ts', [path], ORDINARY_USER).line()
  t.match(line, `The data directory ${path} cannot be written: EACCES`)
})

void t.test('the secret key is made once, for the owner alone, unless one is given', async (t) => {
  const directory = await openDataDirectory(await temporaryDirectory(t))
  t.teardown(() => directory.release())
  const file = join(directory.path, 'secret.key')
  t.notOk(existsSync(file))
  const key = await secretKeyOf(directory)
  t.equal(Buffer.from(key, 'base64').length, 32)
  t.equal((await stat(file)).mode & 0o777, 0o600)
  t.equal(await secretKeyOf(directory), key)
  t.equal(await readFile(file, 'utf8'), `${key}\n`)
  await writeFile(file, '')
  await t.rejects(secretKeyOf(directory), {
    name: 'StorageError',
    message: /secret\.key is damaged/,
  })
  t.equal(await readFile(file, 'utf8'), '', 'and a damaged one is not replaced')
})
