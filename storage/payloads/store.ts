import type { Readable } from 'node:stream'
import { PAYLOAD_STAGES, type PayloadStage } from '../exchange/states.ts'
import { StorageError, type StorageProblem } from '../storage-error.ts'

/** What was stored: `sha256` is lower case hexadecimal. */
export interface StoredPayload {
  readonly sizeBytes: number
  readonly sha256: string
}

/** One stage of one message, small enough to be held in memory. */
export interface PayloadItem {
  readonly messageId: string
  readonly stage: PayloadStage
  readonly bytes: Buffer
}

/** What a check does, in order. */
export const CHECK_STEPS = ['write', 'read', 'compare', 'delete'] as const
export type CheckStep = (typeof CHECK_STEPS)[number]

export type StoreCheck = { readonly ok: true } | FailedCheck<CheckStep>

export interface FailedCheck<Step extends string> {
  readonly ok: false
  readonly step: Step
  /** In words. */
  readonly problem: string
  /** Left out where nobody knows, such as of a storage that does not answer. */
  readonly kind?: StorageProblem
}

/**
 * Where the stages of messages lie for good: one object for each message and stage, in a directory or a bucket. What
 * an operation has answered survives a power failure. All failures are StorageErrors.
 */
export interface PayloadStore {
  /** As a sentence names it: `the directory /var/lib/waybill/payloads`. */
  readonly place: string
  /** Where it looks for what is not there, as a sentence names each. */
  readonly earlierPlaces: readonly string[]
  /** For so long a check that went well says enough, as long as no write fails; one may cost money. */
  readonly checkedForMs: number
  /** Stores a stage of any size, over one that is there. A source that fails leaves nothing behind. */
  readonly put: (messageId: string, stage: PayloadStage, source: Readable | Buffer) => Promise<StoredPayload>
  /**
   * Stores many small stages at once, over those that are there. It fails as a whole; a repeat is harmless. When the
   * signal fires, nothing more is sent.
   */
  readonly putMany: (items: readonly PayloadItem[], signal?: AbortSignal) => Promise<void>
  /**
   * The bytes of a stage, or undefined when it is not stored. With `sha256` the stream ends with an error when the
   * bytes differ from that digest, and before it has handed all of them over.
   */
  readonly open: (
    messageId: string,
    stage: PayloadStage,
    options?: OpenOptions,
  ) => Promise<Readable | undefined>
  /** Removes all stages of a message; there may be none. */
  readonly delete: (messageId: string) => Promise<void>
  /** Stores, reads back, compares and deletes a probe. */
  readonly check: (began?: (step: CheckStep) => void) => Promise<StoreCheck>
  /** The ids of the messages that have anything here, in no certain order and with bounded memory. */
  readonly messageIds: () => AsyncIterable<string>
  /** Names for writes that are under way, or were cut off. */
  readonly unfinished: () => AsyncIterable<string>
  /** Removes what a write left that was cut off. */
  readonly discard: (unfinished: string) => Promise<void>
  /** Lets go of connections. */
  readonly close: () => void
}

export interface OpenOptions {
  /** Lower case hexadecimal. */
  readonly sha256?: string | undefined
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const STAGES: ReadonlySet<string> = new Set(PAYLOAD_STAGES)

/** The name of a stage in a store, `<message id>/<stage>`. Nothing else can be named, so no name leads elsewhere. */
export function payloadName(messageId: string, stage: string): readonly [string, string] {
  if (!STAGES.has(stage)) throw new StorageError(`${JSON.stringify(stage)} is no payload stage`)
  return [checkedMessageId(messageId), stage]
}

export function isMessageId(text: string): boolean {
  return UUID.test(text)
}

export function checkedMessageId(messageId: string): string {
  if (!UUID.test(messageId)) throw new StorageError(`${JSON.stringify(messageId)} is no message id`)
  return messageId
}
