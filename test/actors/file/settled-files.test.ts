import t from 'tap'
import type { Candidate } from '../../../actors/file/candidate.ts'
import { SettledFiles } from '../../../actors/file/settled-files.ts'

const file = (changes: Partial<Candidate> = {}): Candidate => ({
  path: 'globex/a.edi',
  name: 'a.edi',
  size: 10,
  mtimeMs: 1,
  ctimeMs: 1,
  ino: 7,
  ...changes,
})

void t.test('a file is taken when it has stood still for long enough', async (t) => {
  const files = new SettledFiles(2_000)
  t.same(files.look([file()], 1_000), { settled: [], nextInMs: 2_000 })
  t.same(files.look([file()], 2_500), { settled: [], nextInMs: 500 })
  t.same(files.look([file()], 3_000).settled, [file()])
})

void t.test('a file that grows, is touched or is replaced begins anew', async (t) => {
  for (const change of [{ size: 11 }, { mtimeMs: 2 }, { ctimeMs: 2 }, { ino: 8 }]) {
    const files = new SettledFiles(2_000)
    files.look([file()], 0)
    t.same(files.look([file(change)], 2_000), { settled: [], nextInMs: 2_000 })
    t.same(files.look([file(change)], 4_000).settled, [file(change)])
  }
})

void t.test('a file that went away and came back begins anew', async (t) => {
  const files = new SettledFiles(2_000)
  files.look([file()], 0)
  files.look([], 1_000)
  t.same(files.look([file()], 2_000).settled, [])
})

void t.test('without a time to settle every file is taken at once', async (t) => {
  t.same(new SettledFiles(0).look([file()], 0), { settled: [file()], nextInMs: null })
})

void t.test('an empty file is waited for longer, unless nothing is', async (t) => {
  const empty = file({ size: 0 })
  const files = new SettledFiles(2_000)
  t.same(files.look([empty], 0), { settled: [], nextInMs: 10_000 })
  t.same(files.look([file()], 2_000).settled, [], 'then it was written')
  t.same(files.look([file()], 4_000).settled, [file()])
  const patient = new SettledFiles(2_000)
  patient.look([empty], 0)
  t.same(patient.look([empty], 10_000).settled, [empty])
  t.same(new SettledFiles(0).look([empty], 0).settled, [empty])
})
