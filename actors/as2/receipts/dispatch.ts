import { readStage } from '../../../storage/payloads/journal.ts'
import type { Storage } from '../../../storage/access.ts'
import type { ClaimedReceipt } from '../../../storage/receipts/receipt-dispatches.ts'
import { partnershipByName } from '../../../storage/sql/partnership.ts'
import { Unavailable } from '../../http/answer-failure.ts'
import { askedWait } from '../sending/answer-status.ts'
import { HttpClient } from '../sending/http-client.ts'
import { profileHeaders, type Keyring, type Partnership } from '../profiles/partnership.ts'
import type { TlsSettings } from '../profiles/tls-identity.ts'
import { receiptPlace, type AllowedPlaces, type ReceiptPlace } from './place.ts'
import { fromReceiptStage } from './stage.ts'
import { trustOf } from './trust.ts'

/** A receipt that we made is a few kilobytes. */
const MAX_RECEIPT_BYTES = 256 * 1024
const CONNECT_TIMEOUT_MS = 20_000
const RESPONSE_TIMEOUT_MS = 60_000
const MAX_CONNECTIONS = 8

export interface ReceiptSenderOptions {
  readonly storage: Storage
  readonly keyring: Keyring
  readonly product: string
  readonly allowed: AllowedPlaces
}

/** Posts stored receipts, byte for byte, to where the partners want them. */
export class ReceiptSender {
  readonly #options: ReceiptSenderOptions
  /** Apart, so that what only a partner's own host may be connected to is never at hand for somebody else's URL. */
  readonly #trusted = new HttpClient(MAX_CONNECTIONS)
  readonly #strange = new HttpClient(MAX_CONNECTIONS)

  constructor(options: ReceiptSenderOptions) {
    this.#options = options
  }

  /** Throws why the partner did not take it. */
  async send(receipt: ClaimedReceipt, signal: AbortSignal): Promise<void> {
    const { storage, product, allowed } = this.#options
    const partnership = await this.#partnershipOf(receipt)
    const place = receiptPlace(receipt.url, { endpoint: partnership?.row.endpoint ?? null, allowed })
    if (place === null) throw new Error('The URL is not one that a receipt can go to')
    const { message_id } = receipt
    const stage = await readStage(storage.pool, storage.payloads, message_id, 'receipt', MAX_RECEIPT_BYTES)
    const { headers, body } = fromReceiptStage(stage)
    const own = place.isPartner ? partnership : null
    const client = place.isStrange ? this.#strange : this.#trusted
    const answer = await client.post({
      url: place.url.href,
      tls: tlsFor(place, partnership),
      headers: [
        ...headers,
        ['User-Agent', product],
        ...(own === null ? [] : profileHeaders(own.row, own.secrets)),
      ],
      body,
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      responseTimeoutMs: RESPONSE_TIMEOUT_MS,
      isRefused: place.isRefused,
      signal,
    })
    const { status, headers: said } = answer
    if (status >= 200 && status < 300) return
    const waitSeconds = askedWait(said, new Date())
    const failure = `HTTP status ${status}`
    throw waitSeconds === null ? new Error(failure) : new Unavailable(failure, waitSeconds)
  }

  close(): void {
    this.#trusted.close()
    this.#strange.close()
  }

  /** Null where the pair has no profiles (any more): it is a stranger then. */
  async #partnershipOf({ from_party, to_party }: ClaimedReceipt): Promise<Partnership | null> {
    const { storage, keyring } = this.#options
    const row = await partnershipByName(storage.pool, to_party, from_party)
    return row === null ? null : keyring.open(row)
  }
}

function tlsFor({ isPartner }: ReceiptPlace, partnership: Partnership | null): TlsSettings {
  if (partnership === null) return {}
  return isPartner ? partnership.tls : trustOf(partnership.tls)
}
