import { randomUUIDv7 } from 'node:crypto'
import { crashPoint } from '../../../runtime/crash-point.ts'
import { Batch } from '../../../storage/exchange/batch.ts'
import { recordedContentType } from '../../../storage/exchange/attachments.ts'
import { recordedFileName } from '../../../storage/exchange/file-name.ts'
import {
  accept,
  type AcceptedMessage,
  type NewMessage,
  type ReceiptDispatch,
} from '../../../storage/sql/accept.ts'
import { RECEIPT_LASTS_SECONDS } from '../../../storage/receipts/receipt-dispatches.ts'
import { FirstBytes, STRANGER_BYTES } from './first-bytes.ts'
import { duplicateKeyOf, factsOf } from './inbound-facts.ts'
import type { Partnership } from '../profiles/partnership.ts'
import { PartnershipLookup } from '../profiles/partnership-lookup.ts'
import { readEnvelope, type Envelope } from '../protocol/envelope.ts'
import { Refusal } from '../protocol/refusal.ts'
import { makeReceipt, type MadeReceipt } from '../receipts/made-receipt.ts'
import { fromReceiptStage } from '../receipts/stage.ts'
import { receiptWay } from '../receipts/way.ts'
import { repeatOf } from './repeat.ts'
import { NOTHING, RECEIPT_FOLLOWS, type InboundOptions, type Reply } from './reply.ts'
import { bytesOf, storedStage, takeBody, type TakenBody } from './taken-body.ts'
import { judge, type Verdict } from './verdict.ts'

type Headers = ReadonlyArray<readonly [string, string]>

/** What there is of a message: nothing of the body of one that is not taken in. */
type Kept = Omit<TakenBody, 'received'> & { readonly received: TakenBody['received'] | null }

const CUT = `. Only the first ${STRANGER_BYTES} bytes of it are kept`

/**
 * Takes one AS2 message from its bytes to its committed record and the partner's answer. The answer is made before the
 * commit, because it is stored with the message, and is given after it: a receipt says that the message is ours now.
 */
export class Inbound {
  readonly #options: InboundOptions
  readonly #partnerships: PartnershipLookup
  readonly #accepting: Batch<NewMessage, AcceptedMessage | null>

  constructor(options: InboundOptions) {
    this.#options = options
    this.#partnerships = new PartnershipLookup(options.pool, options.keyring)
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

  /**
   * What names the pair of a message, or null where it has no profiles.
   * @throws Refusal when the headers name none
   */
  async pairOf(headers: Headers): Promise<string | null> {
    const { as2From, as2To } = readEnvelope(headers)
    const partnership = await this.#partnerships.byAs2Id(as2To, as2From)
    return partnership === null ? null : JSON.stringify([as2From, as2To])
  }

  /** A stream of which nothing more is needed is not read to its end. */
  async handle(headers: Headers, body: Buffer | AsyncIterable<Buffer>): Promise<Reply> {
    const envelope = readEnvelope(headers)
    // What came before and needs no proof need not be stored again.
    const before = Buffer.isBuffer(body) ? null : await repeatOf(this.#options, envelope, { proof: null })
    if (before !== null) return before
    const { product, maxContentBytes, payloads: store } = this.#options
    const messageId = randomUUIDv7()
    const partnership = await this.#partnerships.byAs2Id(envelope.as2To, envelope.as2From)
    // The profiles were made this very moment: what comes in is not all of it, so it has to come again.
    if (partnership !== null && body instanceof FirstBytes) throw new Error('The pair has profiles only now')
    const row = partnership?.row ?? null
    const way = receiptWay(envelope, { row, allowed: this.#options.receiptPlaces })
    const taken = await takeBody(body, { store, messageId }, (open) =>
      judge(partnership, { envelope, headers, open, maxContentBytes, receiptRefusal: way.refusal }),
    )
    const { verdict } = taken
    if (verdict.kind === 'refused') {
      // One that is taken is found to be a repeat by its acceptance; profiles may have changed since it was.
      const decryption = partnership?.decryption ?? []
      const refused = { received: taken.received, headers, decryption, maxContentBytes, store, messageId }
      const repeat = await repeatOf(this.#options, envelope, { proof: { refused } })
      if (repeat !== null) {
        if (!Buffer.isBuffer(body)) await store.delete(messageId)
        return repeat
      }
    }
    const { asyncUrl } = way
    // Who is no partner can still tell by the signature that it was us who refused.
    const isStranger = partnership === null && envelope.receiptRequest?.signed === true
    const ownSigning = isStranger ? await this.#partnerships.ownSigning(envelope.as2To) : null
    const receiptFor = (of: Verdict): Promise<MadeReceipt | null> =>
      makeReceipt(envelope, { partnership, ownSigning, verdict: of, product, asyncUrl })
    const receipt = await receiptFor(verdict)
    const isCut = body instanceof FirstBytes && body.isCut
    const parts = { messageId, envelope, partnership, taken, headers, receipt, isCut }
    const message = await this.#messageOf(parts)
    const accepted = await this.#accepting.add(message)
    crashPoint('as2-receiver.accepted')
    if (accepted === null && verdict.kind === 'taken') {
      // Another transfer of it was faster. Or the acceptance was repeated after an answer of the database was lost, and
      // what is there is this message itself.
      const contentSha256 = message.stages.find(({ stage }) => stage === 'unpacked')?.sha256 ?? null
      const opened = { incoming: verdict.incoming, contentSha256, receiptFor }
      const faster = await repeatOf(this.#options, envelope, { proof: { opened }, except: message.id })
      if (faster !== null) {
        await this.#options.payloads.delete(message.id)
        return faster
      }
    }
    if (verdict.kind === 'refused') {
      this.#options.log.warn({ message: message.id, reason: verdict.refusal.reason }, 'message refused')
    }
    if (receipt !== null && receipt.asyncUrl !== null) {
      this.#options.receiptWaits()
      return { ...RECEIPT_FOLLOWS, accepted }
    }
    if (receipt !== null) {
      // Whatever it says, and also where it was wanted elsewhere: a status of an error would keep many from reading it.
      return { status: 200, ...fromReceiptStage(receipt.stage), accepted }
    }
    if (verdict.kind === 'taken') return { ...NOTHING, accepted }
    const text = Buffer.from(`${verdict.refusal.message}\n`)
    return { status: 400, headers: [['Content-Type', 'text/plain']], body: text, accepted }
  }

  /**
   * Keeps the headers of a message whose body is not taken in, and why; of a pair that has no profiles, or of headers that
   * name none, the log alone tells.
   */
  async refuseUntaken(headers: Headers, reason: string): Promise<void> {
    const { log } = this.#options
    let envelope: Envelope
    try {
      envelope = readEnvelope(headers)
    } catch (thrown) {
      if (!(thrown instanceof Refusal)) throw thrown
      return log.warn({ reason, headers: thrown.reason }, 'request refused')
    }
    const { as2From, as2To, messageId: as2MessageId } = envelope
    const partnership = await this.#partnerships.byAs2Id(as2To, as2From)
    if (partnership === null) return log.warn({ as2From, as2To, as2MessageId, reason }, 'message refused')
    const messageId = randomUUIDv7()
    const refusal = new Refusal('unexpected-processing-error', reason)
    const taken = { verdict: { kind: 'refused', refusal }, received: null, unpacked: null } as const
    const parts = { messageId, envelope, partnership, taken, headers, receipt: null, isCut: false }
    await this.#accepting.add(await this.#messageOf(parts))
    log.warn({ message: messageId, reason }, 'message refused')
  }

  async #messageOf(parts: {
    readonly messageId: string
    readonly envelope: Envelope
    readonly partnership: Partnership | null
    readonly taken: Kept
    readonly headers: Headers
    readonly receipt: MadeReceipt | null
    /** Whether only the beginning of the body is kept. */
    readonly isCut: boolean
  }): Promise<NewMessage> {
    const { messageId: id, envelope, partnership, taken, headers, receipt, isCut } = parts
    const { verdict, received, unpacked } = taken
    const to = { store: this.#options.payloads, messageId: id }
    const incoming = verdict.kind === 'taken' ? verdict.incoming : null
    const headerLines = Buffer.from(
      headers.map(([name, value]) => `${name}: ${value}\r\n`).join(''),
      'latin1',
    )
    const storing = await Promise.allSettled([
      received === null ? null : storedStage('received', received, to),
      storedStage('headers', headerLines, to),
      unpacked === null ? null : storedStage('unpacked', unpacked, to),
      receipt === null ? null : storedStage('receipt', receipt.stage, to),
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
      contentType: recordedContentType(incoming?.contentType ?? 'application/octet-stream'),
      sizeBytes: incoming?.sizeBytes ?? (received === null ? 0 : bytesOf(received)),
      stages: stages.filter((stage) => stage !== null),
      protocols: { as2: factsOf(envelope, verdict, receipt, id) },
      sourceReference: null,
      duplicateKey: verdict.kind === 'taken' ? duplicateKeyOf(envelope) : null,
      refusal: verdict.kind === 'refused' ? `${verdict.refusal.reason}${isCut ? CUT : ''}` : null,
      receiptDispatch: receipt === null ? null : receiptDispatchOf(receipt),
      note: verdict.kind === 'taken' ? (verdict.note ?? null) : null,
      dispatch: true,
    }
  }
}

function receiptDispatchOf({ asyncUrl }: MadeReceipt): ReceiptDispatch | null {
  return asyncUrl === null ? null : { url: asyncUrl, lastsSeconds: RECEIPT_LASTS_SECONDS }
}
