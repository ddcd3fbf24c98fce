import { hash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { crashPoint } from '../../../runtime/crash-point.ts'
import { openStage, readStage } from '../../../storage/payloads/journal.ts'
import { certificateByFingerprint } from '../../../storage/sql/certificate-row.ts'
import { findDuplicate, noteDuplicate, type KnownMessage } from '../../../storage/sql/duplicate.ts'
import { as2Facts } from '../facts.ts'
import { readEnvelope, type Envelope } from '../protocol/envelope.ts'
import { fromHeaderStage, fromReceiptStage } from '../receipts/stage.ts'
import { sendAgain } from '../receipts/way.ts'
import { NOTHING, RECEIPT_FOLLOWS, type InboundOptions, type Reply } from './reply.ts'
import { duplicateKeyOf } from './inbound-facts.ts'
import { lateReceipt, micOf, type OpenedRepeat } from './late-receipt.ts'
import { isSignedAgain, type RefusedMessage } from './signed-again.ts'

/** More than the headers of a request may have. */
const MAX_HEADER_STAGE_BYTES = 256 * 1024

const NO_PLACE: Reply = {
  status: 400,
  headers: [['Content-Type', 'text/plain']],
  body: Buffer.from('The receipt cannot be sent to the URL that it is wanted at.\n'),
  accepted: null,
}

/**
 * What may show that a message is the repeat that its names say: it was opened and would be taken; or it is refused now,
 * and is the same bytes as then, or is signed as then, whatever the profile says by now. The names alone anybody can write.
 */
export type Proof = { readonly opened: OpenedRepeat } | { readonly refused: RefusedMessage } | null

/**
 * The answer to a message that was received before: its stored receipt again, byte for byte. Null where there is none, or
 * where nothing shows that this one is of the same sender. `except`: the message itself, which is not its own repeat.
 */
export async function repeatOf(
  options: InboundOptions,
  envelope: Envelope,
  { proof, except = null }: { readonly proof: Proof; readonly except?: string | null },
): Promise<Reply | null> {
  const { pool, payloads, log } = options
  const duplicateKey = duplicateKeyOf(envelope)
  if (duplicateKey === null) return null
  const known = await findDuplicate(pool, duplicateKey, except)
  if (known === null) return null
  const hasReceipt = as2Facts(known.protocols)?.receipt != null
  const opened = proof !== null && 'opened' in proof ? proof.opened : null
  // A receipt that is still to be made needs what is in the message.
  if (proof === null && !hasReceipt && envelope.receiptRequest !== null) return null
  const sender = await senderOf(options, known, proof)
  if (sender === null) return null
  await noteDuplicate(pool, known.id, 'The partner sent the message again')
  crashPoint('as2-receiver.repeat-recorded')
  log.info({ message: known.id }, 'repeat received')
  if (!hasReceipt) {
    if (envelope.receiptRequest === null || opened === null) return { ...NOTHING, accepted: null }
    const made = await lateReceipt(options, known, opened)
    if (made !== null) return made
  }
  if (envelope.receiptRequest !== null && envelope.receiptRequest.asyncUrl !== null) {
    const { source: receiver, receiptPlaces: allowed, receiptWaits } = options
    const again = {
      messageId: known.id,
      receiver,
      allowed,
      first: await firstEnvelope(options, known),
      elsewhere: sender === 'partner',
    }
    if (!(await sendAgain(pool, envelope, again))) return NO_PLACE
    receiptWaits()
    return { ...RECEIPT_FOLLOWS, accepted: null }
  }
  const stored = await buffer(await openStage(pool, payloads, known.id, 'receipt'))
  return { status: 200, ...fromReceiptStage(stored), accepted: null }
}

/** Who sends the message again: the partner himself, or whoever may send it again. Null: nothing shows that it is a repeat. */
async function senderOf(
  { pool }: InboundOptions,
  known: KnownMessage,
  proof: Proof,
): Promise<'partner' | 'anybody' | null> {
  if (proof !== null && 'opened' in proof) return 'partner'
  const { signed, signer_fingerprint_sha256: fingerprint } = as2Facts(known.protocols) ?? {}
  // What was taken without a signature could be written by anybody, and so may its repeat.
  if (signed === false) return 'anybody'
  if (proof === null) return null
  const { received } = proof.refused
  const sha256 = Buffer.isBuffer(received) ? hash('sha256', received, 'hex') : received.sha256
  if (sha256 === known.received_sha256) return 'anybody'
  const mic = micOf(known)
  if (fingerprint === undefined || mic === null) return null
  const certificate = await certificateByFingerprint(pool, fingerprint)
  if (certificate === null) return null
  return (await isSignedAgain(proof.refused, { certificate, mic })) ? 'partner' : null
}

async function firstEnvelope({ pool, payloads }: InboundOptions, { id }: KnownMessage): Promise<Envelope> {
  return readEnvelope(fromHeaderStage(await readStage(pool, payloads, id, 'headers', MAX_HEADER_STAGE_BYTES)))
}
