import { spawnSync } from 'node:child_process'
import { rm } from 'node:fs/promises'
import t from 'tap'
import type { StorageSettings } from '../../storage/settings/storage-settings.ts'
import { plainCommand, temporaryDirectory } from '../support/processes.ts'
import { localStorage } from '../support/storages.ts'
import { fileURLToPath } from 'node:url'
import { S3Server } from './s3-server.ts'

t.setTimeout(600_000)

const CHILD = fileURLToPath(new URL('./memory-child.ts', import.meta.url))
const MEGABYTES = 400
/** The parts that are under way, and what has not been collected yet. */
const MOST_KIB = 300 * 1024

function storeAndRead(settings: StorageSettings): { read: number; before: number; most: number } {
  const [command, args] = plainCommand(process.execPath, [CHILD, JSON.stringify(settings), String(MEGABYTES)])
  const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' })
  if (stdout === '') throw new Error(stderr)
  return JSON.parse(stdout) as ReturnType<typeof storeAndRead>
}

t.test('a payload of any size passes with flat memory', async (t) => {
  const directory = await temporaryDirectory(t)
  const server = await S3Server.start(t)
  for (const [name, settings] of Object.entries({ s3: server.settings(), local: localStorage(directory) })) {
    if (name === 'local') await rm(server.folder(), { recursive: true })
    const { LocalStore } = await import('../../storage/payloads/local-store.ts')
    await LocalStore.prepare(directory)
    const { read, before, most } = storeAndRead(settings)
    t.equal(read, MEGABYTES * 2 ** 20)
    t.ok(most - before < MOST_KIB, `${name}: ${most - before} KiB more for ${MEGABYTES} MiB`)
  }
})
