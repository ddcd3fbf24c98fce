import { link, mkdir, readdir, readFile, rename, symlink, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { Publisher, type Publication } from '../../../actors/file/publish.ts'
import { PermanentFailure } from '../../../storage/exchange/retry.ts'
import { temporaryDirectory } from '../../support/processes.ts'

function publication(changes: Partial<Publication> & { text?: string } = {}): Publication {
  const { text = 'payload', ...rest } = changes
  return {
    deliveryId: 7,
    fencing: 1,
    path: 'globex/invoice.edi',
    onConflict: 'rename',
    open: async () => Readable.from([Buffer.from(text)], { objectMode: false }),
    ...rest,
  }
}

const visible = async (directory: string): Promise<string[]> =>
  (await readdir(directory, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && !entry.parentPath.includes('.waybill'))
    .map(({ name }) => name)
    .toSorted()

void t.test('a file appears under its name with its content, an empty one too', async (t) => {
  const base = await temporaryDirectory(t)
  const publisher = await Publisher.open(base)
  await publisher.publish(publication())
  await publisher.publish(publication({ deliveryId: 8, path: 'empty.edi', text: '' }))
  t.equal(await readFile(join(base, 'globex/invoice.edi'), 'utf8'), 'payload')
  t.equal(await readFile(join(base, 'empty.edi'), 'utf8'), '')
  await publisher.finished(7)
  await publisher.finished(8)
  t.same(await readdir(join(base, '.waybill')), [])
})

void t.test('a name that is taken is numbered, replaced or refused, as it is told', async (t) => {
  const base = await temporaryDirectory(t)
  const publisher = await Publisher.open(base)
  for (const deliveryId of [1, 2, 3])
    await publisher.publish(publication({ deliveryId, text: String(deliveryId) }))
  t.same(await visible(base), ['invoice (2).edi', 'invoice (3).edi', 'invoice.edi'])
  await publisher.publish(publication({ deliveryId: 4, onConflict: 'overwrite', text: 'new' }))
  t.equal(await readFile(join(base, 'globex/invoice.edi'), 'utf8'), 'new')
  await t.rejects(publisher.publish(publication({ deliveryId: 5, onConflict: 'fail' })), PermanentFailure)
})

void t.test('a repeat of what was published publishes nothing, wherever the crash came', async (t) => {
  const crashes: Readonly<Record<string, (workshop: string, base: string) => Promise<void>>> = {
    'after the link': async (workshop) => rename(join(workshop, '7.1.done'), join(workshop, '7.1.part')),
    'after the mark': async () => undefined,
    'after the mark, and the file was fetched': async (_workshop, base) =>
      unlink(join(base, 'globex/invoice.edi')),
  }
  for (const [name, crash] of Object.entries(crashes)) {
    const base = await temporaryDirectory(t)
    await (await Publisher.open(base)).publish(publication())
    await crash(join(base, '.waybill'), base)
    const before = await visible(base)
    const publisher = await Publisher.open(base)
    await publisher.publish(publication({ fencing: 2 }))
    t.same(await visible(base), before, name)
  }
})

void t.test('what was not published before a crash is published by the repeat', async (t) => {
  const base = await temporaryDirectory(t)
  const publisher = await Publisher.open(base)
  await writeFile(join(base, '.waybill', '7.1.part'), 'half')
  await publisher.publish(publication({ fencing: 2 }))
  t.equal(await readFile(join(base, 'globex/invoice.edi'), 'utf8'), 'payload')
})

void t.test('traces of settled deliveries are swept, those of open ones stay', async (t) => {
  const base = await temporaryDirectory(t)
  const publisher = await Publisher.open(base)
  for (const name of ['1.1.part', '2.1.done', '2.2.part']) await writeFile(join(base, '.waybill', name), '')
  await publisher.sweep(async () => new Set([1]))
  t.same(await readdir(join(base, '.waybill')), ['1.1.part'])
})

void t.test('a symbolic link in the tree leads nowhere', async (t) => {
  const base = await temporaryDirectory(t)
  const elsewhere = await temporaryDirectory(t)
  const publisher = await Publisher.open(base)
  await symlink(elsewhere, join(base, 'globex'))
  await t.rejects(publisher.publish(publication()), { message: /leads out of the base directory/ })
  t.same(await readdir(elsewhere), [])
  await mkdir(join(base, 'acme'))
  await writeFile(join(elsewhere, 'target'), 'untouched')
  await symlink(join(elsewhere, 'target'), join(base, 'acme', 'invoice.edi'))
  await publisher.publish(publication({ deliveryId: 9, path: 'acme/invoice.edi' }))
  t.equal(await readFile(join(elsewhere, 'target'), 'utf8'), 'untouched')
  await link(join(base, 'acme', 'invoice (2).edi'), join(base, 'found'))
})
