import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { DataDirectory } from './data-directory.ts'
import { writeDurably } from '../durable-file.ts'

const FILE = 'node.id'
const NODE_ID = /^[0-9a-f-]{36}$/

/**
 * Identifies this data directory, and so this node, in the leases of the database: a process that starts anew knows
 * by it which claims its predecessor left behind. A host name would not do, two processes of one host share it.
 */
export async function nodeIdOf(directory: DataDirectory): Promise<string> {
  const file = join(directory.path, FILE)
  const stored = (await readFile(file, 'utf8').catch(() => '')).trim()
  if (NODE_ID.test(stored)) return stored
  const nodeId = randomUUID()
  await writeDurably(file, `${nodeId}\n`, 0o600)
  return nodeId
}
