/** RecipientInfos (RFC 5652 §6.2): the content key for each recipient, by key transport or key agreement. */
import type { BerElement } from '../asn1/reader.ts'
import { contextTag, TAG } from '../asn1/tag.ts'
import type { Der } from '../asn1/writer.ts'
import { matchesIdentifier, prepareCertificate } from '../certificate.ts'
import type { CertificateIdentifier } from '../certificate.ts'
import { ComposeError } from '../compose-error.ts'
import { Refusal } from '../refusal.ts'
import { readCertificateIdentifier } from './certificate-identifier.ts'
import type { DecryptionKey, Encryption } from './encryption-keys.ts'
import { formatKeyAgreement, readKeyAgreement, unwrapAgreedKey } from './key-agreement.ts'
import type { AgreedKey } from './key-agreement.ts'
import { formatKeyTransport, readKeyTransport, unwrapTransportedKey } from './key-transport.ts'
import type { TransportedKey } from './key-transport.ts'
import type { RsaDecryption } from './rsa-decryption.ts'

/** The recipient of a message, with a key of ours that may be the one. */
export type Recipient = TransportedKey | AgreedKey

const MAX_RECIPIENTS = 100

/**
 * The RecipientInfo for an RSA or an EC certificate.
 * @throws ComposeError when the certificate has a key of another kind, or one that counts for nothing
 */
export function formatRecipient(contentKey: Buffer, encryption: Encryption): Der {
  const certificate = prepareCertificate(encryption.certificate)
  const { publicKey, unsound } = certificate
  if (unsound !== null) throw new ComposeError(`nothing can be encrypted to the certificate: ${unsound}`)
  const type = publicKey.asymmetricKeyType
  if (type === 'rsa') return formatKeyTransport(contentKey, certificate, encryption)
  if (type === 'ec') return formatKeyAgreement(contentKey, certificate, encryption.algorithm)
  throw new ComposeError('encryption to a certificate without an RSA or EC key is not supported')
}

/** Of EnvelopedData (RFC 5652 §6.1): key agreement, which is younger, raises it. */
export function envelopeVersion({ certificate }: Pick<Encryption, 'certificate'>): 0 | 2 {
  return prepareCertificate(certificate).publicKey.asymmetricKeyType === 'ec' ? 2 : 0
}

/**
 * The first recipient whose certificate is among ours, once for each of our keys that it may mean: certificates that
 * replace each other may have one name and number. Key transport is a plain SEQUENCE and means an RSA key, key agreement
 * has the tag 1 and means an EC key; the other kinds are passed over.
 * @throws Refusal when none is, Asn1Error
 */
export function findRecipients(recipients: BerElement, keys: readonly DecryptionKey[]): readonly Recipient[] {
  let count = 0
  const keysOf = (identifier: CertificateIdentifier, kind: 'rsa' | 'ec'): readonly DecryptionKey[] => {
    if (++count > MAX_RECIPIENTS) {
      throw new Refusal('decryption-failed', 'the message names too many recipients')
    }
    return keys.filter(({ certificate }) => {
      const prepared = prepareCertificate(certificate)
      return prepared.publicKey.asymmetricKeyType === kind && matchesIdentifier(prepared, identifier)
    })
  }
  for (const each of recipients.children()) {
    if (each.tag === TAG.SEQUENCE) {
      const fields = each.children()
      fields.next(TAG.INTEGER)
      const ours = keysOf(readCertificateIdentifier(fields.next()), 'rsa')
      if (ours.length > 0) return readKeyTransport(fields, ours)
    } else if (each.tag === contextTag(1, 'constructed')) {
      for (const { identifier, agreed } of readKeyAgreement(each)) {
        const ours = keysOf(identifier, 'ec')
        if (ours.length > 0) return agreed(ours)
      }
    } else {
      count++
    }
  }
  throw new Refusal('decryption-failed', 'the message is not encrypted to any of our decryption certificates')
}

/** The content key, or null when it cannot be unwrapped, of which nobody outside may learn. */
export async function unwrapContentKey(
  recipient: Recipient,
  decrypt: RsaDecryption,
): Promise<Uint8Array | null> {
  return recipient.method === 'ECDH' ? unwrapAgreedKey(recipient) : unwrapTransportedKey(recipient, decrypt)
}
