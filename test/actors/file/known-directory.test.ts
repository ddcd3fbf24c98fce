import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { KnownDirectory, MAY_COME_BACK_MS } from '../../../actors/file/known-directory.ts'
import { temporaryDirectory } from '../../support/processes.ts'

t.test('another directory at its place is not used for ten minutes, and then it is the one', async (t) => {
  const parent = await temporaryDirectory(t)
  const path = join(parent, 'done')
  await mkdir(path)
  const known = new KnownDirectory(path)
  const open = (nowMs: number): void => known.open(nowMs).close()
  open(0)
  await rename(path, join(parent, 'away'))
  t.throws(() => open(1_000), { code: 'ENOENT' })
  await mkdir(path)
  t.throws(() => open(2_000), /is another directory than before/)
  t.throws(() => open(1_999 + MAY_COME_BACK_MS), /is another directory than before/)
  await rm(path, { recursive: true })
  await rename(join(parent, 'away'), path)
  open(3_000 + MAY_COME_BACK_MS)

  t.comment('An operator who has exchanged it meant to')
  await rename(path, join(parent, 'of last year'))
  await mkdir(path)
  t.throws(() => open(10 * MAY_COME_BACK_MS), /is another directory than before/)
  open(11 * MAY_COME_BACK_MS)
  open(11 * MAY_COME_BACK_MS + 1)
})
