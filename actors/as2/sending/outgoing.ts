import { PermanentFailure } from '../../../storage/exchange/retry.ts'
import type { ClaimedDelivery } from '../../../storage/sql/claim.ts'
import { withoutParameter } from '../../../runtime/mime/parameters.ts'
import { invalidity } from '../profiles/certificate-validity.ts'
import type { Partnership } from '../profiles/partnership.ts'
import type { OutgoingFacts } from '../protocol/outgoing.ts'

/** Made from the message alone, so that every repeat carries the same (RFC 4130 §5.3.3). */
function messageIdOf(delivery: ClaimedDelivery): string {
  return `<${delivery.message_id}@waybill>`
}

/**
 * What a delivery's message says, and how it is signed and encrypted, under the profiles of its pair. Throws a
 * PermanentFailure when they lack what they ask for.
 */
export function outgoingOf(
  delivery: ClaimedDelivery,
  { row, signing, partnerEncryption }: Partnership,
  { product, asyncUrl }: { readonly product: string; readonly asyncUrl: string | null },
): OutgoingFacts {
  if (row.signing_algorithm !== 'None' && signing === null) {
    throw new PermanentFailure(
      `The AS2 profile of organization ${row.organization} has no signing certificate`,
    )
  }
  if (row.encryption_algorithm !== 'None' && partnerEncryption === null) {
    throw new PermanentFailure(`The AS2 profile of partner ${row.partner} has no certificate to encrypt to`)
  }
  refuseExpired(row)
  const fileName = row.send_file_name ? delivery.file_name : null
  const contentType =
    delivery.content_type === 'application/octet-stream' ? row.content_type : delivery.content_type
  return {
    as2From: row.local_as2id,
    as2To: row.remote_as2id,
    messageId: messageIdOf(delivery),
    subject: row.subject === '' ? fileName : row.subject,
    date: delivery.message_created_at,
    fileName,
    // One that was received may tell the name, too.
    contentType: row.send_file_name ? contentType : withoutParameter(contentType, 'name'),
    compression: row.compression,
    signature:
      row.signing_algorithm === 'None' || signing === null
        ? null
        : { algorithm: row.signing_algorithm, scheme: row.signature_scheme, ...signing },
    encryption:
      row.encryption_algorithm === 'None' || partnerEncryption === null
        ? null
        : {
            algorithm: row.encryption_algorithm,
            keyTransport: row.key_transport,
            oaepDigest: row.oaep_digest,
            certificate: partnerEncryption,
          },
    receipt: row.receipt_mode === 'None' ? null : { signed: row.receipt_signed, asyncUrl },
    product,
    as2Version: row.as2_version,
    micalgFormat: row.micalg_format,
    transferEncoding: row.content_transfer_encoding,
  }
}

/** What is encrypted to a certificate that does not count may be opened by somebody else. */
function refuseExpired(row: Partnership['row']): void {
  const { partner, partner_encryption, encryption_algorithm, accept_expired_certificates } = row
  if (encryption_algorithm === 'None' || accept_expired_certificates || partner_encryption === null) return
  const invalid = invalidity(partner_encryption, new Date())
  if (invalid === null) return
  throw new PermanentFailure(`Nothing is encrypted to ${partner}: ${invalid}; its profile needs another one`)
}
