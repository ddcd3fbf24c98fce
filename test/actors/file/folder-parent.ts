import { FolderCaller } from '../../../actors/file/folder-caller.ts'
import type { PollerOperations } from '../../../actors/file/folder-operations.ts'
import { createLog } from '../../../runtime/log.ts'

/** Calls a folder that hangs, or that of a directory, says which process is its, and ends at SIGTERM. */
const [directory] = process.argv.slice(2)
const places = {
  baseDirectory: `${directory}/base`,
  processedDirectory: `${directory}/done`,
  errorDirectory: `${directory}/error`,
  depth: 0,
  filePattern: '*.*',
}
const caller = new FolderCaller<PollerOperations>({
  role: 'poller',
  opening: places,
  log: createLog('silent'),
  ...(directory === undefined ? { program: new URL('hanging-folder.ts', import.meta.url) } : {}),
})
await caller.call('open', places)
caller.call('identity', null).catch(() => undefined)
process.on('SIGTERM', () => void caller.close().then(() => process.exit(0)))
const stay = setInterval(() => undefined, 1_000)
console.log(JSON.stringify({ child: caller.pid, stays: stay.hasRef() }))
