import {
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rmdir,
  stat,
  symlink,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { toCandidate, type Candidate } from '../../../actors/file/candidate.ts'
import { moveAway } from '../../../actors/file/moves.ts'
import { temporaryDirectory } from '../../support/processes.ts'
import { failingDisk, mountAt, smallDisk } from '../../support/disks.ts'

const ID = '01900000-0000-7000-8000-000000000001'
const TAKEN = `.${ID}.taken`

async function begin(t: Test, to?: string, directory?: string) {
  directory ??= await temporaryDirectory(t)
  const base = join(directory, 'base')
  const done = to ?? join(directory, 'done')
  await mkdir(join(base, 'globex'), { recursive: true })
  await mkdir(join(done, 'globex'), { recursive: true })
  const place = (name: string): string => join(base, 'globex', name)
  return {
    directory,
    base,
    done,
    place,
    put: async (text = 'payload'): Promise<Candidate> => {
      await writeFile(place('a.edi'), text)
      return toCandidate('globex/a.edi', await lstat(place('a.edi')))
    },
    move: (candidate: Candidate, target = done) =>
      moveAway(base, [{ messageId: ID, candidate, to: target }]).map(({ kind }) => kind),
    here: async () => (await readdir(join(base, 'globex'))).toSorted(),
    there: async () => (await readdir(join(done, 'globex'))).toSorted(),
  }
}

void t.test('a file goes to the same path below the other directory', async (t) => {
  const box = await begin(t)
  const candidate = await box.put()
  t.same(box.move(candidate), ['moved'])
  t.same([await box.here(), await box.there()], [[], ['a.edi']])
  t.same(box.move(candidate), ['gone'], 'and a repeat finds it gone')
})

void t.test('nothing is written over: a file gets a numbered name', async (t) => {
  const box = await begin(t)
  await writeFile(join(box.done, 'globex', 'a.edi'), 'of yesterday')
  t.same(box.move(await box.put()), ['moved'])
  t.same(await box.there(), ['a (2).edi', 'a.edi'])
  t.equal(await readFile(join(box.done, 'globex', 'a.edi'), 'utf8'), 'of yesterday')
})

void t.test('a move that a crash cut off after any step is gone on with, and doubles nothing', async (t) => {
  const crashes: Readonly<Record<string, (box: Awaited<ReturnType<typeof begin>>) => Promise<void>>> = {
    'after the hidden name': (box) => rename(box.place('a.edi'), box.place(TAKEN)),
    'after the second name': async (box) => {
      await rename(box.place('a.edi'), box.place(TAKEN))
      await link(box.place(TAKEN), join(box.done, 'globex', 'a.edi'))
    },
    'after the removal of the first': async (box) =>
      rename(box.place('a.edi'), join(box.done, 'globex', 'a.edi')),
    'while it got its name back': async (box) => {
      await rename(box.place('a.edi'), box.place(TAKEN))
      await link(box.place(TAKEN), box.place('a.edi'))
      await unlink(box.place('a.edi'))
    },
  }
  for (const [name, crash] of Object.entries(crashes)) {
    const box = await begin(t)
    const candidate = await box.put()
    await crash(box)
    t.ok(['moved', 'gone'].includes(box.move(candidate)[0] ?? ''), name)
    t.same([await box.here(), await box.there()], [[], ['a.edi']], name)
  }
})

void t.test('what was put into its place stays, under its name', async (t) => {
  for (const replace of [
    async (path: string) => writeFile(path, 'longer than before'),
    async (path: string) => {
      await writeFile(`${path}.new`, 'payload')
      await rename(`${path}.new`, path)
    },
    async (path: string) => {
      await unlink(path)
      await symlink('/etc/passwd', path)
    },
  ]) {
    const box = await begin(t)
    const candidate = await box.put()
    await replace(box.place('a.edi'))
    t.ok(['changed', 'gone'].includes(box.move(candidate)[0] ?? ''))
    t.same([await box.here(), await box.there()], [['a.edi'], []])
  }
})

void t.test('what came into its place at the last moment gets its name back, or a free one', async (t) => {
  const box = await begin(t)
  const candidate = await box.put()
  await unlink(box.place('a.edi'))
  // As if it had been replaced between the look and the rename.
  await writeFile(box.place(TAKEN), 'another file')
  t.same(box.move(candidate), ['changed'])
  t.same(await box.here(), ['a.edi'])
  t.equal(await readFile(box.place('a.edi'), 'utf8'), 'another file')
  await writeFile(box.place(TAKEN), 'a third one')
  t.same(box.move(candidate), ['changed'])
  t.same(await box.here(), ['a (2).edi', 'a.edi'])
})

void t.test('a file that cannot be moved has its name again, and the failure tells why', async (t) => {
  const box = await begin(t)
  const candidate = await box.put()
  const blocked = join(box.directory, 'blocked')
  await mkdir(blocked)
  await writeFile(join(blocked, 'globex'), 'a file where a directory should be')
  const [outcome] = moveAway(box.base, [{ messageId: ID, candidate, to: blocked }])
  t.match(outcome, { kind: 'failed', failure: { message: /blocked\/globex is .*no directory/ } })
  t.same(await box.here(), ['a.edi'])
})

void t.test('no link leads a move elsewhere', async (t) => {
  const box = await begin(t)
  const elsewhere = await temporaryDirectory(t)
  const candidate = await box.put()
  const target = join(box.directory, 'target')
  await mkdir(target)
  await symlink(elsewhere, join(target, 'globex'))
  t.same(box.move(candidate, target), ['failed'])
  t.same(await readdir(elsewhere), [])
  await rename(join(box.base, 'globex'), join(elsewhere, 'globex'))
  await symlink(join(elsewhere, 'globex'), join(box.base, 'globex'))
  t.same(box.move(candidate), ['gone'], 'a directory that has become a link is none')
  t.same(await readdir(join(elsewhere, 'globex')), ['a.edi'])
})

void t.test('to another file system goes a whole copy with its time, and then the original', async (t) => {
  const box = await begin(t, await smallDisk(t, 1_048_576))
  const candidate = await box.put()
  t.same(box.move(candidate), ['moved'])
  t.same([await box.here(), await box.there()], [[], ['a.edi']])
  const copy = join(box.done, 'globex', 'a.edi')
  t.equal(await readFile(copy, 'utf8'), 'payload')
  t.equal(Math.floor((await stat(copy)).mtimeMs / 1000), Math.floor(candidate.mtimeMs / 1000))
  // A crash after the copy: the original is still there.
  const again = await box.put()
  await unlink(copy)
  t.same(box.move(again), ['moved'])
  await link(copy, join(box.done, 'kept'))
  const third = await box.put('other!!')
  t.same(box.move(third), ['moved'])
  t.equal((await box.there()).length, 2, 'another file of the same name is kept beside it')
})

void t.test('a full disk leaves the file where it is, and nothing of it on the disk', async (t) => {
  const box = await begin(t, await smallDisk(t, 65_536))
  const candidate = await box.put('x'.repeat(200_000))
  const [outcome] = moveAway(box.base, [{ messageId: ID, candidate, to: box.done }])
  t.match(outcome, { kind: 'failed', failure: { code: 'ENOSPC' } })
  t.same([await box.here(), await box.there()], [['a.edi'], []])
})

/** Files that take all the names that a file system has; the answer gives them back. */
async function useUpNames(disk: string): Promise<() => Promise<void>> {
  const names: string[] = []
  for (let isFull = false; !isFull;) {
    const name = join(disk, `ballast-${names.length}`)
    isFull = await writeFile(name, '').then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === 'ENOSPC',
    )
    if (!isFull) names.push(name)
  }
  return async () => {
    for (const name of names) await unlink(name)
  }
}

void t.test('a disk with no room for a directory, a copy or a name keeps nothing half', async (t) => {
  const other = await smallDisk(t, 1_048_576, 'nr_inodes=20')
  const cases: Readonly<Record<string, { readonly to: string; readonly inside?: string }>> = {
    'the directory that the file goes to cannot be made': { to: join(other, 'new') },
    'nor the copy': { to: join(other, 'old') },
    'nor the second name on the same disk': { to: join(other, 'same', 'done'), inside: join(other, 'same') },
  }
  for (const name of ['new', 'old', 'same']) await mkdir(join(other, name))
  for (const [name, { to, inside }] of Object.entries(cases)) {
    const box = await begin(t, to, inside)
    if (to.endsWith('new')) await rmdir(join(to, 'globex'))
    const candidate = await box.put()
    const giveBack = await useUpNames(other)
    const [outcome] = moveAway(box.base, [{ messageId: ID, candidate, to }])
    t.match(outcome, { kind: 'failed', failure: { code: 'ENOSPC' } }, name)
    t.equal((await box.here()).length, 1, `${name}: the file is where it was`)
    t.same(await readdir(join(to, 'globex')).catch(() => []), [], `${name}: and nothing of it elsewhere`)
    await giveBack()
    t.same(box.move(candidate), ['moved'], name)
    t.same([await box.here(), await box.there()], [[], ['a.edi']], name)
    t.equal(await readFile(join(to, 'globex', 'a.edi'), 'utf8'), 'payload', name)
    await unlink(join(to, 'globex', 'a.edi'))
  }
})

void t.test(
  'a device that fails where the file goes to: it stays, and goes when the device is back',
  async (t) => {
    const disk = await failingDisk(t)
    const box = await begin(t, join(disk.path, 'done'))
    const text = 'x'.repeat(3_000_000)
    const candidate = await box.put(text)
    await disk.fail()
    for (let tries = 0; tries < 2; tries += 1) {
      const [outcome] = moveAway(box.base, [{ messageId: ID, candidate, to: box.done }])
      t.match(outcome, { kind: 'failed', failure: { code: 'EIO' } })
      t.same(await box.here(), ['a.edi'])
    }
    await disk.recover()
    t.same(box.move(candidate), ['moved'])
    t.same([await box.here(), await box.there()], [[], ['a.edi']])
    t.equal(await readFile(join(box.done, 'globex', 'a.edi'), 'utf8'), text)
  },
)

void t.test('a device that fails where the file lies: it is moved when the device is back', async (t) => {
  const disk = await failingDisk(t)
  const directory = join(disk.path, 'site')
  await mkdir(directory)
  const box = await begin(t, undefined, directory)
  const candidate = await box.put()
  await disk.failWriting()
  const [outcome] = moveAway(box.base, [{ messageId: ID, candidate, to: box.done }])
  t.match(outcome, { kind: 'failed', failure: { code: 'EIO' } })
  await disk.recover()
  t.ok(['moved', 'gone'].includes(box.move(candidate)[0] ?? ''))
  t.same([await box.here(), await box.there()], [[], ['a.edi']])
})

void t.test('a file of a file system that is mounted in the folder is moved away too', async (t) => {
  const disk = await smallDisk(t, 1_048_576)
  const box = await begin(t)
  mountAt(t, disk, join(box.base, 'globex'))
  const candidate = await box.put()
  t.same(box.move(candidate), ['moved'])
  t.same([await box.here(), await box.there()], [[], ['a.edi']])
  const done = await smallDisk(t, 1_048_576)
  mountAt(t, done, join(box.done, 'globex'))
  t.same(box.move(await box.put('again')), ['moved'])
  t.equal(await readFile(join(done, 'a.edi'), 'utf8'), 'again')
})
