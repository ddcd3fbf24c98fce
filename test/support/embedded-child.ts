import { createLog } from '../../runtime/log.ts'
import { reasonOf } from '../../runtime/errors.ts'
import { openDataDirectory } from '../../storage/data-directory/data-directory.ts'
import { startEmbedded } from '../../storage/postgres/embedded.ts'

/**
 * A process that runs the embedded server in the directory of its first argument, to be killed by tests. It prints
 * one line of JSON when the server runs, or one with the reason why it does not.
 */
try {
  const lock = await openDataDirectory(process.argv[2] ?? '')
  const server = await startEmbedded({ directory: lock.path, log: createLog('silent') })
  process.once('SIGTERM', () => {
    void server.stop().then(() => lock.release())
  })
  // Last: who reads the line may send the signal at once.
  process.stdout.write(`${JSON.stringify({ url: server.url, pid: server.pid })}\n`)
} catch (thrown) {
  process.stdout.write(`${JSON.stringify({ reason: reasonOf(thrown) })}\n`)
}
