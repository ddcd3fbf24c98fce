import { hash } from 'node:crypto'
import type { PayloadStage } from './states.ts'

/** A stage up to this size travels inside the transaction that needs it; a larger one goes to the store first. */
export const JOURNAL_LIMIT_BYTES = 256 * 1024

/** What a message record says of each of its stages. `sha256` is lower case hexadecimal. */
export interface StageFacts {
  readonly size_bytes: number
  readonly sha256: string
}

export type StoredStage = StageFacts & { readonly stored_at: string }

/** A stage of a message that is about to be committed: with its bytes, or already lying in the payload store. */
export interface NewStage extends StageFacts {
  readonly stage: PayloadStage
  readonly bytes: Buffer | null
}

/** A stage that travels with the transaction. */
export function journaled(stage: PayloadStage, bytes: Buffer): NewStage {
  return { stage, bytes, size_bytes: bytes.length, sha256: hash('sha256', bytes, 'hex') }
}
