import { mkdir, writeFile } from 'node:fs/promises'
import { once } from 'node:events'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { FolderCaller } from '../../../actors/file/folder-caller.ts'
import type { PollerOperations } from '../../../actors/file/folder-operations.ts'
import type { WriterOperations } from '../../../actors/file/writer-operations.ts'
import { createLog } from '../../../runtime/log.ts'
import { isAlive, runScript, temporaryDirectory, until } from '../../support/processes.ts'

t.setTimeout(300_000)

function told() {
  const lines: string[] = []
  const log = createLog('silent')
  for (const level of ['info', 'error'] as const)
    log[level] = (_fields: unknown, message?: string) => void lines.push(message ?? '')
  return { lines, log }
}

async function begin(t: Test, options: { readonly program?: URL; readonly slowMs?: number } = {}) {
  const directory = await temporaryDirectory(t)
  const base = join(directory, 'base')
  const { lines, log } = told()
  const opening = {
    baseDirectory: base,
    processedDirectory: join(directory, 'done'),
    errorDirectory: join(directory, 'error'),
    depth: 0,
    filePattern: '*.*',
  }
  const caller = new FolderCaller<PollerOperations>({ role: 'poller', opening, log, ...options })
  t.teardown(() => caller.close())
  await caller.call('open', opening)
  return { base, caller, lines }
}

const hanging = new URL('hanging-folder.ts', import.meta.url)

void t.test('what the process of a folder finds crosses over, and so does what fails there', async (t) => {
  const { base, caller } = await begin(t)
  await writeFile(join(base, 'a.edi'), 'payload')
  const page = await caller.call('look', { begin: true })
  const [candidate] = page?.candidates ?? []
  t.match(candidate, { path: 'a.edi', size: 7 })
  const [read] = candidate === undefined ? [] : await caller.call('read', [candidate])
  t.equal(read?.kind === 'read' && Buffer.from(read.bytes).toString(), 'payload')
  await t.rejects(caller.call('readFile', { bytes: 1 }), { message: 'No file is open' })
})

void t.test('a failure that no repeat can mend stays one, and the code of the system stays', async (t) => {
  const base = await temporaryDirectory(t)
  const caller = new FolderCaller<WriterOperations>({
    role: 'writer',
    opening: base,
    log: createLog('silent'),
  })
  t.teardown(() => caller.close())
  const publication = {
    deliveryId: 1,
    fencing: 1,
    file: null,
    isRepeat: false,
    path: 'a.edi',
    onConflict: 'fail',
  } as const
  await writeFile(join(base, 'a.edi'), '')
  await t.rejects(caller.call('publishWhole', { publication, bytes: Buffer.from('x') }), {
    name: 'PermanentFailure',
  })
  await mkdir(join(base, 'a'))
  await writeFile(join(base, 'a', 'b'), '')
  await t.rejects(
    caller.call('publishWhole', {
      publication: { ...publication, deliveryId: 2, path: `${'x'.repeat(300)}.edi` },
      bytes: Buffer.from('x'),
    }),
    { code: 'ENAMETOOLONG' },
  )
})

void t.test('a process that was killed is replaced, and its folders are opened again', async (t) => {
  const { base, caller } = await begin(t)
  await writeFile(join(base, 'a.edi'), '')
  const before = caller.pid
  process.kill(before ?? 0, 'SIGKILL')
  await until(async () => (await caller.call('look', { begin: true }).catch(() => null)) !== null)
  t.not(caller.pid, before)
})

void t.test('a folder that hangs is told once, and nobody waits for it at the end', async (t) => {
  const { caller, lines } = await begin(t, { program: hanging, slowMs: 10 })
  const calls = [caller.call('identity', null), caller.call('look', { begin: true })]
  const failed = Promise.allSettled(calls)
  await until(() => lines.length > 0)
  const { pid } = caller
  t.match(lines[0], /has not answered/)
  await caller.close()
  t.ok((await failed).every(({ status }) => status === 'rejected'))
  await until(() => !isAlive(pid ?? 0))
  await t.rejects(caller.call('identity', null), { message: /stopped/ })
})

void t.test('folders that cannot be opened are opened anew by the next call', async (t) => {
  const directory = await temporaryDirectory(t)
  await writeFile(join(directory, 'file'), '')
  const base = join(directory, 'file', 'base')
  const caller = new FolderCaller<WriterOperations>({
    role: 'writer',
    opening: base,
    log: createLog('silent'),
  })
  t.teardown(() => caller.close())
  await t.rejects(caller.call('open', base), { code: 'ENOTDIR' })
  await t.rejects(caller.call('traced', null), { code: 'ENOTDIR' })
})

void t.test('a process ends although its folder hangs, and the process of the folder with it', async (t) => {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const script = runScript(t, '../actors/file/folder-parent.ts', [])
    const { child } = JSON.parse((await script.line()) ?? '{}') as { child: number }
    t.ok(isAlive(child))
    const ended = once(script.child, 'exit')
    script.child.kill(signal)
    await ended
    // One that sleeps within the system can be killed; one that was orphaned ends when the system answers it.
    if (signal === 'SIGTERM') await until(() => !isAlive(child))
    else process.kill(child, 'SIGKILL')
  }
})

void t.test('the process of a folder that is well ends with its parent, however that ends', async (t) => {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const script = runScript(t, '../actors/file/folder-parent.ts', [await temporaryDirectory(t)])
    const { child } = JSON.parse((await script.line()) ?? '{}') as { child: number }
    t.ok(isAlive(child))
    await script.kill(signal)
    await until(() => !isAlive(child))
  }
})

void t.test('signals for a whole service do not end the process of a folder before its parent', async (t) => {
  const { caller } = await begin(t)
  const { pid } = caller
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(pid ?? 0, signal)
  t.type(await caller.call('identity', null), 'number')
  t.equal(caller.pid, pid)
})
