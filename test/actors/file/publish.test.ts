import {
  link,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Publisher, type Publication } from '../../../actors/file/publish.ts'
import { PermanentFailure } from '../../../storage/exchange/retry.ts'
import { temporaryDirectory } from '../../support/processes.ts'

function publication(changes: Partial<Publication> = {}): Publication {
  return {
    deliveryId: 7,
    fencing: 1,
    file: null,
    isRepeat: false,
    path: 'globex/invoice.edi',
    onConflict: 'rename',
    ...changes,
  }
}

async function publish(base: string, changes: Partial<Publication> = {}, text = 'payload'): Promise<void> {
  const draft = await Publisher.open(base).begin(publication(changes))
  await draft?.write(Buffer.from(text))
  await draft?.publish()
}

const visible = async (directory: string): Promise<string[]> =>
  (await readdir(directory, { recursive: true, withFileTypes: true }))
    .filter((entry) => !entry.isDirectory() && !entry.parentPath.includes('.waybill'))
    .map(({ name }) => name)
    .toSorted()

const workshop = (base: string): Promise<string[]> => readdir(join(base, '.waybill'))

void t.test('a file appears under its name with its content, an empty one too', async (t) => {
  const base = await temporaryDirectory(t)
  await publish(base)
  await publish(base, { deliveryId: 8, path: 'empty.edi' }, '')
  t.equal(await readFile(join(base, 'globex/invoice.edi'), 'utf8'), 'payload')
  t.equal(await readFile(join(base, 'empty.edi'), 'utf8'), '')
  const publisher = Publisher.open(base)
  publisher.finished(7)
  publisher.finished(8)
  t.same(await workshop(base), [])
})

void t.test('nothing is seen of a file before it is complete', async (t) => {
  for (const onConflict of ['rename', 'overwrite', 'fail'] as const) {
    const base = await temporaryDirectory(t)
    const draft = await Publisher.open(base).begin(publication({ onConflict }))
    await draft?.write(Buffer.from('half'))
    t.same(await visible(base), [])
    await draft?.write(Buffer.from(' and half'))
    await draft?.publish()
    t.equal(await readFile(join(base, 'globex/invoice.edi'), 'utf8'), 'half and half')
  }
})

void t.test('what is abandoned leaves nothing', async (t) => {
  const base = await temporaryDirectory(t)
  const draft = await Publisher.open(base).begin(publication())
  await draft?.write(Buffer.from('half'))
  await draft?.abandon()
  t.same([...(await visible(base)), ...(await workshop(base))], [])
})

void t.test('a name that is taken is numbered, replaced or refused, as it is told', async (t) => {
  const base = await temporaryDirectory(t)
  for (const deliveryId of [1, 2, 3]) await publish(base, { deliveryId }, String(deliveryId))
  t.same(await visible(base), ['invoice (2).edi', 'invoice (3).edi', 'invoice.edi'])
  await publish(base, { deliveryId: 4, onConflict: 'overwrite' }, 'new')
  t.equal(await readFile(join(base, 'globex/invoice.edi'), 'utf8'), 'new')
  await t.rejects(publish(base, { deliveryId: 5, onConflict: 'fail' }), PermanentFailure)
  t.equal(await readFile(join(base, 'globex/invoice.edi'), 'utf8'), 'new')
  t.notOk((await workshop(base)).some((name) => name.startsWith('5.')))
})

void t.test('a repeat of what was published publishes nothing, wherever the crash came', async (t) => {
  const crashes: Readonly<Record<string, (shop: string, base: string) => Promise<void>>> = {
    'after the link': (shop) => rename(join(shop, '7.1.done'), join(shop, '7.1.part')),
    'after the mark': async () => undefined,
    'after the mark, and the file was fetched': (_shop, base) => unlink(join(base, 'globex/invoice.edi')),
  }
  for (const [name, crash] of Object.entries(crashes)) {
    const base = await temporaryDirectory(t)
    await publish(base)
    await crash(join(base, '.waybill'), base)
    const before = await visible(base)
    await publish(base, { fencing: 2, isRepeat: true })
    t.same(await visible(base), before, name)
  }
})

void t.test('a repeat of what wrote over a file does not write again, even if it was fetched', async (t) => {
  const base = await temporaryDirectory(t)
  await publish(base, { onConflict: 'overwrite' })
  await unlink(join(base, 'globex/invoice.edi'))
  await publish(base, { onConflict: 'overwrite', fencing: 2, isRepeat: true })
  t.same(await visible(base), [])
})

void t.test('what was not published before a crash is published by the repeat', async (t) => {
  for (const traces of [['7.1.part'], ['7.1.part', '7.1.naming'], []]) {
    const base = await temporaryDirectory(t)
    Publisher.open(base)
    for (const trace of traces) await writeFile(join(base, '.waybill', trace), 'half')
    await publish(base, { fencing: 2, isRepeat: true })
    t.equal(await readFile(join(base, 'globex/invoice.edi'), 'utf8'), 'payload')
  }
})

void t.test('a claim that stood still publishes nothing once a later one has begun', async (t) => {
  for (const onConflict of ['rename', 'overwrite', 'fail'] as const) {
    const base = await temporaryDirectory(t)
    const stalled = await Publisher.open(base).begin(publication({ onConflict }))
    await stalled?.write(Buffer.from('of the first claim'))
    await publish(base, { fencing: 2, isRepeat: true, onConflict }, 'of the second')
    await t.rejects(stalled?.publish() ?? Promise.resolve(), { code: 'ENOENT' })
    t.same(await visible(base), ['invoice.edi'])
    t.equal(await readFile(join(base, 'globex/invoice.edi'), 'utf8'), 'of the second')
  }
})

void t.test('what is delivered again on request is written again, whatever traces are left', async (t) => {
  const base = await temporaryDirectory(t)
  await publish(base)
  await publish(base, { fencing: 2 })
  t.same(await visible(base), ['invoice (2).edi', 'invoice.edi'])
})

void t.test('the deliveries that left traces are known, and their traces removed', async (t) => {
  const base = await temporaryDirectory(t)
  const publisher = Publisher.open(base)
  for (const name of ['1.1.part', '2.1.done', '2.2.part', 'of somebody else'])
    await writeFile(join(base, '.waybill', name), '')
  t.same(new Set(publisher.traced()), new Set([1, 2]))
  publisher.finished(2)
  t.same((await workshop(base)).toSorted(), ['1.1.part', 'of somebody else'])
})

void t.test('a symbolic link in the tree leads nowhere, at any level', async (t) => {
  const base = await temporaryDirectory(t)
  const elsewhere = await temporaryDirectory(t)
  Publisher.open(base)
  await symlink(elsewhere, join(base, 'globex'))
  await t.rejects(publish(base), { name: 'PermanentFailure', message: /symbolic link/ })
  await mkdir(join(base, 'a', 'b'), { recursive: true })
  await symlink(elsewhere, join(base, 'a', 'b', 'c'))
  await t.rejects(publish(base, { path: 'a/b/c/invoice.edi' }), PermanentFailure)
  await t.rejects(publish(base, { path: 'a/b/c/d/invoice.edi' }), PermanentFailure)
  t.same(await readdir(elsewhere), [])
  await mkdir(join(base, 'acme'))
  await writeFile(join(elsewhere, 'target'), 'untouched')
  await symlink(join(elsewhere, 'target'), join(base, 'acme', 'invoice.edi'))
  await publish(base, { deliveryId: 9, path: 'acme/invoice.edi' })
  t.equal(await readFile(join(elsewhere, 'target'), 'utf8'), 'untouched')
  await link(join(base, 'acme', 'invoice (2).edi'), join(base, 'found'))
  await publish(base, { deliveryId: 10, path: 'acme/invoice.edi', onConflict: 'overwrite' })
  t.equal(await readFile(join(elsewhere, 'target'), 'utf8'), 'untouched')
  t.ok((await stat(join(base, 'acme', 'invoice.edi'))).isFile(), 'the link itself was replaced')
  await symlink(elsewhere, join(base, 'acme', 'dangling.edi'))
  await t.rejects(
    publish(base, { deliveryId: 11, path: 'acme/dangling.edi', onConflict: 'fail' }),
    PermanentFailure,
  )
})

void t.test('a link in place of the workshop is not written through', async (t) => {
  const base = await temporaryDirectory(t)
  const elsewhere = await temporaryDirectory(t)
  await symlink(elsewhere, join(base, '.waybill'))
  t.throws(() => Publisher.open(base), { message: /symbolic link/ })
  t.same(await readdir(elsewhere), [])
})

void t.test('a directory that is swapped for a link while a file is written leads nowhere', async (t) => {
  const base = await temporaryDirectory(t)
  const elsewhere = await temporaryDirectory(t)
  await mkdir(join(base, 'globex'))
  const draft = await Publisher.open(base).begin(publication())
  await draft?.write(Buffer.from('payload'))
  await rm(join(base, 'globex'), { recursive: true })
  await symlink(elsewhere, join(base, 'globex'))
  await t.rejects(draft?.publish() ?? Promise.resolve(), PermanentFailure)
  t.same(await readdir(elsewhere), [])
  t.same(await workshop(base), [])
})
