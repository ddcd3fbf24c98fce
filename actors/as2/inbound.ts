import { randomUUIDv7 } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import type { Pool } from 'pg'
import { crashPoint } from '../../runtime/crash-point.ts'
import type { Log } from '../../runtime/log.ts'
import { Batch } from '../../storage/exchange/batch.ts'
import { recordedFileName } from '../../storage/exchange/file-name.ts'
import { JOURNAL_LIMIT_BYTES, journaled, type NewStage } from '../../storage/exchange/stages.ts'
import type { PayloadStage } from '../../storage/exchange/states.ts'
import { openStage } from '../../storage/payloads/journal.ts'
import type { PayloadStore } from '../../storage/payloads/store.ts'
import { accept, type AcceptedMessage, type NewMessage } from '../../storage/sql/accept.ts'
import { recordDuplicate } from '../../storage/sql/duplicate.ts'
import { partnershipByAs2Id } from '../../storage/sql/partnership.ts'
import { as2Facts } from './facts.ts'
import { duplicateKeyOf, factsOf, printable } from './inbound-facts.ts'
import type { Keyring, Partnership } from './partnership.ts'
import { readEnvelope, type Envelope } from './protocol/envelope.ts'
import { makeReceipt, type MadeReceipt } from './made-receipt.ts'
import { fromReceiptStage } from './receipt-stage.ts'
import { judge, type Verdict } from './verdict.ts'

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
}

/** What the partner is answered, and the message whose targets are to be told. */
export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly body: Buffer
  readonly accepted: AcceptedMessage | null
}

/**
 * Takes one AS2 message from its bytes to its committed record and the partner's answer. The answer is made before the
 * commit, because it is stored with the message, and is given after it: a receipt says that the message is ours now.
 */
export class Inbound {
  readonly #options: InboundOptions
  readonly #accepting: Batch<NewMessage, AcceptedMessage | null>

  constructor(options: InboundOptions) {
    this.#options = options
    this.#accepting = new Batch(
      async (messages) => {
        const accepted = new Map(
          (await accept(options.pool, messages)).map((message) => [message.id, message]),
        )
        return messages.map(({ id }) => accepted.get(id) ?? null)
      },
      { maxItems: 64, maxUnderWay: 1 },
    )
  }

  async handle(headers: Headers, body: Buffer): Promise<Reply> {
    const envelope = readEnvelope(headers)
    const repeat = await this.#repeatOf(envelope, null)
    if (repeat !== null) return repeat
    const row = await partnershipByAs2Id(this.#options.pool, envelope.as2From, envelope.as2To)
    const partnership = row === null ? null : this.#options.keyring.open(row)
    const verdict = await judge(partnership, {
      envelope,
      headers,
      body,
      maxContentBytes: this.#options.maxContentBytes,
    })
    const receipt = await makeReceipt(envelope, { partnership, verdict, product: this.#options.product })
    const message = await this.#messageOf({ envelope, partnership, verdict, headers, body, receipt })
    const accepted = await this.#accepting.add(message)
    crashPoint('as2-receiver.accepted')
    if (accepted === null) {
      // Another transfer of it was faster. Or the acceptance was repeated after an answer of the database was lost, and
      // what is there is this message itself.
      const faster = await this.#repeatOf(envelope, message.id)
      if (faster !== null) {
        await this.#options.payloads.delete(message.id)
        return faster
      }
    }
    if (verdict.kind === 'refused') {
      this.#options.log.warn({ message: message.id, reason: verdict.refusal.reason }, 'message refused')
    }
    if (receipt !== null) return { status: 200, ...fromReceiptStage(receipt.stage), accepted }
    if (verdict.kind === 'taken') return { status: 200, headers: [], body: Buffer.alloc(0), accepted }
    const text = Buffer.from(`${verdict.refusal.message}\n`)
    return { status: 400, headers: [['Content-Type', 'text/plain']], body: text, accepted }
  }

  async #messageOf(parts: {
    readonly envelope: Envelope
    readonly partnership: Partnership | null
    readonly verdict: Verdict
    readonly headers: Headers
    readonly body: Buffer
    readonly receipt: MadeReceipt | null
  }): Promise<NewMessage> {
    const { envelope, partnership, verdict, headers, body, receipt } = parts
    const id = randomUUIDv7()
    const incoming = verdict.kind === 'taken' ? verdict.incoming : null
    const headerLines = Buffer.from(
      headers.map(([name, value]) => `${name}: ${value}\r\n`).join(''),
      'latin1',
    )
    const storing = await Promise.allSettled([
      this.#stage(id, 'received', body),
      this.#stage(id, 'headers', headerLines),
      incoming === null ? null : this.#stage(id, 'unpacked', incoming.content),
      receipt === null ? null : this.#stage(id, 'receipt', receipt.stage),
    ])
    const failed = storing.find((stage) => stage.status === 'rejected')
    if (failed !== undefined) {
      // Nothing of it is committed: what did find room goes, too.
      await this.#options.payloads.delete(id).catch(() => undefined)
      throw failed.reason
    }
    crashPoint('as2-receiver.stages-stored')
    const stages = storing.map((stage) => (stage.status === 'fulfilled' ? stage.value : null))
    return {
      id,
      direction: 'inbound',
      source: this.#options.source,
      from: partnership?.row.partner ?? envelope.as2From,
      to: partnership?.row.organization ?? envelope.as2To,
      fileName: recordedFileName(incoming?.fileName ?? '', id),
      contentType: printable(incoming?.contentType ?? 'application/octet-stream'),
      sizeBytes: incoming?.content.length ?? body.length,
      stages: stages.filter((stage) => stage !== null),
      protocols: { as2: factsOf(envelope, verdict, receipt) },
      sourceReference: null,
      duplicateKey: verdict.kind === 'taken' ? duplicateKeyOf(envelope) : null,
      refusal: verdict.kind === 'refused' ? verdict.refusal.reason : null,
      dispatch: true,
    }
  }

  async #stage(messageId: string, stage: PayloadStage, bytes: Buffer): Promise<NewStage> {
    if (bytes.length <= JOURNAL_LIMIT_BYTES) return journaled(stage, bytes)
    const { sizeBytes, sha256 } = await this.#options.payloads.put(messageId, stage, bytes)
    return { stage, bytes: null, size_bytes: sizeBytes, sha256 }
  }

  /** The answer to a message that was received before: its stored receipt again, byte for byte. */
  async #repeatOf(envelope: Envelope, except: string | null): Promise<Reply | null> {
    const { pool, payloads, log } = this.#options
    const duplicateKey = duplicateKeyOf(envelope)
    if (duplicateKey === null) return null
    const known = await recordDuplicate(pool, duplicateKey, 'The partner sent the message again', except)
    if (known === null) return null
    crashPoint('as2-receiver.repeat-recorded')
    log.info({ message: known.id }, 'repeat received')
    if (as2Facts(known.protocols)?.receipt == null) {
      return { status: 200, headers: [], body: Buffer.alloc(0), accepted: null }
    }
    const stored = await buffer(await openStage(pool, payloads, known.id, 'receipt'))
    return { status: 200, ...fromReceiptStage(stored), accepted: null }
  }
}
