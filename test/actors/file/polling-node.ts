import { createLog } from '../../../runtime/log.ts'
import { startPolling } from './polling.ts'

/** A node that runs the poller; it says so, and tells when it holds the lease and when it has lost it. */
const [databaseUrl = '', nodeId = '', directory = ''] = process.argv.slice(2)
const log = createLog('silent')
for (const level of ['info', 'warn', 'error'] as const)
  log[level] = (_fields: unknown, message?: string) => {
    if (message?.includes('lease') === true) console.log(message)
  }
await startPolling({ databaseUrl, nodeId, directory, log })
