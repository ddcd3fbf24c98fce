import fc from 'fast-check'
import { mkdir, readdir, readFile, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { DistinctPaths } from '../../../actors/file/distinct-paths.ts'
import { Drafts } from '../../../actors/file/drafts.ts'
import { Publisher, type OnConflict, type Publication } from '../../../actors/file/publish.ts'
import { PermanentFailure } from '../../../storage/exchange/retry.ts'
import { temporaryDirectory } from '../../support/processes.ts'

const NAMES = ['a.edi', 'b.pdf', 'c.xml']

interface Claim {
  readonly fencing: number
  readonly isRepeat: boolean
  readonly onConflict?: OnConflict
}

/** Writes the files of one delivery that a claim has still to publish. */
async function write(
  publisher: Publisher,
  { fencing, isRepeat, onConflict = 'rename' }: Claim,
): Promise<Drafts> {
  const drafts = new Drafts()
  for (const [index, name] of NAMES.entries()) {
    const publication: Publication = {
      deliveryId: 7,
      fencing,
      file: index + 1,
      isRepeat,
      path: `globex/${name}`,
      onConflict,
    }
    const draft = await publisher.begin(publication)
    if (draft === null) continue
    drafts.add(publication, draft)
    await draft.write(Buffer.from(`content of ${name}`))
    await draft.seal()
  }
  return drafts
}

async function visible(base: string): Promise<string[]> {
  const names: string[] = await readdir(join(base, 'globex')).catch(() => [])
  return names.toSorted()
}

async function isWhole(base: string): Promise<boolean> {
  const texts = await Promise.all(NAMES.map((name) => readFile(join(base, 'globex', name), 'utf8')))
  return texts.every((text, index) => text === `content of ${NAMES[index]}`)
}

for (const onConflict of ['rename', 'overwrite', 'fail'] as const) {
  void t.test(`${onConflict}: none of several files is seen before all are written`, async (t) => {
    const base = await temporaryDirectory(t)
    const publisher = Publisher.open(base)
    const drafts = await write(publisher, { fencing: 1, isRepeat: false, onConflict })
    t.same(await visible(base), [])
    await drafts.publishAll({ deliveryId: 7, fencing: 1 })
    t.same(await visible(base), NAMES)
    t.ok(await isWhole(base))
    t.same(publisher.traced(), [7])
    publisher.finished(7)
    t.same(await readdir(join(base, '.waybill')), [])
  })

  void t.test(`${onConflict}: a repeat publishes what a crash has left, and nothing twice`, async (t) => {
    for (let published = 0; published <= NAMES.length; published += 1) {
      const base = await temporaryDirectory(t)
      const publisher = Publisher.open(base)
      const first = await write(publisher, { fencing: 1, isRepeat: false, onConflict })
      for (let file = 1; file <= published; file += 1)
        await first.take({ deliveryId: 7, fencing: 1, file }).publish()
      // Somebody has fetched one of them already.
      if (published > 0) await unlink(join(base, 'globex', 'a.edi'))
      const second = await write(publisher, { fencing: 2, isRepeat: true, onConflict })
      await second.publishAll({ deliveryId: 7, fencing: 2 })
      t.same(await visible(base), published > 0 ? NAMES.slice(1) : NAMES, `${published} were published`)
      const stalled = first.publishAll({ deliveryId: 7, fencing: 1 })
      if (published < NAMES.length)
        await t.rejects(stalled, onConflict === 'fail' ? PermanentFailure : { code: 'ENOENT' })
      else await stalled
      t.same(await visible(base), published > 0 ? NAMES.slice(1) : NAMES, 'nor does who stood still')
    }
  })
}

void t.test(
  'with on_conflict fail, one name that is taken keeps all files from being published',
  async (t) => {
    const base = await temporaryDirectory(t)
    await mkdir(join(base, 'globex'))
    await writeFile(join(base, 'globex', 'c.xml'), 'of somebody else')
    const publisher = Publisher.open(base)
    const drafts = await write(publisher, { fencing: 1, isRepeat: false, onConflict: 'fail' })
    await t.rejects(drafts.publishAll({ deliveryId: 7, fencing: 1 }), PermanentFailure)
    t.same(await visible(base), ['c.xml'])
    t.same(await readdir(join(base, '.waybill')), [])
  },
)

void t.test('what is abandoned leaves nothing of any file', async (t) => {
  const base = await temporaryDirectory(t)
  const drafts = await write(Publisher.open(base), { fencing: 1, isRepeat: false })
  await drafts.abandonAll({ deliveryId: 7, fencing: 1 })
  t.same([...(await visible(base)), ...(await readdir(join(base, '.waybill')))], [])
})

void t.test('files of equal names in one message get paths of their own, always the same ones', (t) => {
  const paths = (names: readonly string[]): string[] => {
    const distinct = new DistinctPaths()
    return names.map((name) => distinct.next(name))
  }
  t.same(paths(['in/a.edi', 'in/A.EDI', 'in/a (2).edi', 'in/a.edi', 'out/a.edi', 'x', 'x']), [
    'in/a.edi',
    'in/A (2).EDI',
    'in/a (2) (2).edi',
    'in/a (3).edi',
    'out/a.edi',
    'x',
    'x (2)',
  ])
  const names = fc.array(fc.constantFrom('a', 'A', 'a (2)', 'ü', 'u\u0308', 'in/a', 'a.edi', 'a (2).edi'), {
    maxLength: 30,
  })
  fc.assert(
    fc.property(names, (some) => {
      const made = paths(some)
      return new Set(made.map((path) => path.normalize('NFC').toLowerCase())).size === some.length
    }),
  )
  t.end()
})
