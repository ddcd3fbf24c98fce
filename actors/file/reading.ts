import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { JOURNAL_LIMIT_BYTES, journaled, type NewStage } from '../../storage/exchange/stages.ts'
import type { PayloadStore } from '../../storage/payloads/store.ts'
import { lookAt, sameFile, toCandidate, type Candidate } from './scan.ts'

/**
 * The file's bytes, a large file's already in the store; null when it changed while it was read: then it has not
 * settled after all. Leaves nothing in the store then, nor when it throws.
 */
export async function readStage(
  baseDirectory: string,
  store: PayloadStore,
  candidate: Candidate,
  messageId: string,
): Promise<NewStage | null> {
  const path = join(baseDirectory, candidate.path)
  const unchanged = async (readBytes: number): Promise<boolean> => {
    const stats = await lookAt(path)
    return (
      stats !== null &&
      readBytes === candidate.size &&
      sameFile(toCandidate(candidate.path, stats), candidate)
    )
  }
  if (candidate.size <= JOURNAL_LIMIT_BYTES) {
    const bytes = await readFile(path)
    return (await unchanged(bytes.length)) ? journaled('unpacked', bytes) : null
  }
  const { sizeBytes, sha256 } = await store.put(messageId, 'unpacked', createReadStream(path))
  let whole = false
  try {
    whole = await unchanged(sizeBytes)
  } finally {
    if (!whole) await store.delete(messageId)
  }
  return whole ? { stage: 'unpacked', bytes: null, size_bytes: sizeBytes, sha256 } : null
}
