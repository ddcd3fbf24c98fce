import { z } from 'zod'
import {
  AS2_VERSIONS,
  CONTENT_TRANSFER_ENCODINGS,
  MICALG_FORMATS,
  OAEP_DIGESTS,
  RECEIPT_SIGNING_ALGORITHMS,
} from './remote-profile.ts'

/** Properties of a remote profile in which products differ. The defaults suit nearly all of them. */
export const partnerSwitches = {
  as2_version: z
    .enum(AS2_VERSIONS)
    .default('1.3')
    .describe(
      'The AS2-Version header of messages and receipts. 1.3 comes with AS2-Product and EDIINT-Features, 1.2 with EDIINT-Features alone, 1.1 with neither: for a product that refuses what it does not know. While `identification_hide_version` is set, 1.3 is sent as 1.2, as AS2-Product tells our version.',
    ),
  micalg_format: z
    .enum(MICALG_FORMATS)
    .default('sha-256')
    .describe(
      'How digests are spelt in `micalg`, in what a receipt is asked for and in receipts: with a hyphen (RFC 5751) or, for older products, without (RFC 3851).',
    ),
  oaep_digest: z
    .enum(OAEP_DIGESTS)
    .default('SHA256')
    .describe('Digest of OAEP. Means nothing while `key_transport` is PKCS1 or nothing is encrypted.'),
  content_transfer_encoding: z
    .enum(CONTENT_TRANSFER_ENCODINGS)
    .default('binary')
    .describe(
      'How the content and the encrypted or compressed body travel: as they are, or in base64, which takes a third more, for a product that cannot read binary. Of several files in one message each is encoded.',
    ),
  chunked_transfer: z
    .boolean()
    .default(true)
    .describe(
      'Whether large messages may be sent with Transfer-Encoding: chunked. False sends each with its Content-Length, for a server or proxy that demands it.',
    ),
  send_file_name: z
    .boolean()
    .default(true)
    .describe(
      'Whether the name of the file travels with the content, in Content-Disposition. False keeps it, and those of several files in one message, out of all headers, also out of an empty `subject`.',
    ),
  receipt_signing_algorithm: z
    .enum(RECEIPT_SIGNING_ALGORITHMS)
    .default('Auto')
    .describe(
      'Digest of signatures of receipts that we send. Auto takes the digest of the message, else the one that the partner asks for, and SHA-256 in place of SHA-1 unless `signing_algorithm` is SHA1.',
    ),
  accept_expired_certificates: z
    .boolean()
    .default(false)
    .describe(
      "Whether the partner's certificates count outside of their validity. While it is false, a message that the partner signs with such a certificate is refused (`authentication-failed`), a receipt signed with one is none, and what would be encrypted to one fails its delivery. While it is true, the history tells of each message and receipt that comes in that its certificate was not valid.",
    ),
  tls_verify_host_name: z
    .boolean()
    .default(true)
    .describe(
      "Whether the partner's TLS certificate must be for the host of the endpoint. It may be false only with `tls_ca_certificate_id`, which then alone tells the partner's server.",
    ),
}
