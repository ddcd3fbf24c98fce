import type { Pool } from 'pg'
import type { Log } from '../../../runtime/log.ts'
import type { PayloadStore } from '../../../storage/payloads/store.ts'
import type { AcceptedMessage } from '../../../storage/sql/accept.ts'
import type { Keyring } from '../profiles/partnership.ts'
import type { AllowedPlaces } from '../receipts/place.ts'

type Headers = ReadonlyArray<readonly [string, string]>

export interface InboundOptions {
  readonly pool: Pool
  readonly payloads: PayloadStore
  readonly keyring: Keyring
  readonly log: Log
  /** The instance's name. */
  readonly source: string
  readonly product: string
  readonly maxContentBytes: number
  /** Where asynchronous receipts may go. */
  readonly receiptPlaces: AllowedPlaces
  /** Told when one waits to be sent. */
  readonly receiptWaits: () => void
}

/** What the partner is answered, and the message whose targets are to be told. */
export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly body: Buffer
  readonly accepted: AcceptedMessage | null
}

export const NOTHING = { status: 200, headers: [], body: Buffer.alloc(0) } as const
/** The message is here, and its receipt comes by itself: what the draft that is to replace RFC 4130 prefers (§5.4). */
export const RECEIPT_FOLLOWS = { ...NOTHING, status: 204 } as const
