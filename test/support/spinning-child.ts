import { Worker } from 'node:worker_threads'
import { endNow } from '../../runtime/process-end.ts'

/** A process with a thread within native code, which nothing can end. It ends when it is told to. */
const SPIN = `
const { parentPort } = require('node:worker_threads')
parentPort.postMessage('spins')
require('node:crypto').pbkdf2Sync('a', 'b', 2_000_000_000, 64, 'sha512')`

const worker = new Worker(SPIN, { eval: true })
worker.once('message', () => {
  process.once('SIGTERM', () => endNow(7))
  console.log('ready')
})
