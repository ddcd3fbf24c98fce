/** Reads one message, in memory or as a stream, and tells what became of it. */
import { parentPort, workerData } from 'node:worker_threads'
import { inMemory, streamed } from './stream/both-readers.ts'

export interface Task {
  readonly way: 'in memory' | 'as a stream'
  readonly contentType: string
  readonly body: Uint8Array
}

const { way, contentType, body } = workerData as Task
const message = {
  headers: [
    ['AS2-From', 'sender'],
    ['AS2-To', 'receiver'],
    ['Content-Type', contentType],
  ] as const,
  body: Buffer.from(body),
  decryption: [],
  signers: [],
  maxContentBytes: 1_073_741_824,
}
const { modifier, reason } = way === 'in memory' ? await inMemory(message) : await streamed(message, [65_536])
parentPort?.postMessage({ modifier, reason }, [])
