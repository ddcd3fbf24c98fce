import type { PreparedMessage } from './as2-prepared.ts'

/** Who takes the messages of a round. */
export interface Receiver {
  readonly name: string
  readonly url: string
  /** Of the process that receives, with its children. */
  readonly pid: number
  readonly message: PreparedMessage
  /** Null: the answers are no receipts. */
  readonly signer: Buffer | null
  /** How many are stored now; null where that is not to be told. */
  readonly count: (() => Promise<number>) | null
}
