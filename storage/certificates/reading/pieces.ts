import { X509Certificate, type KeyObject } from 'node:crypto'
import { factsOf, type CertificateFacts } from './facts.ts'
import { TooMuchError, UnusableError } from './refusal.ts'

export interface PieceCertificate {
  readonly x509: X509Certificate
  readonly facts: CertificateFacts
}

export interface LeftOut {
  readonly noun: 'certificate' | 'private key'
  /** Continues the sentence `it cannot be used:`. */
  readonly reason: string
}

const MOST_CERTIFICATES = 500
const MOST_KEYS = 50
/** A certificate of the field has 1 to 4 KiB; the largest known, with thousands of host names, stay below 100. */
const LARGEST_CERTIFICATE_BYTES = 128 * 1024
const MOST_BYTES = 2 * 1024 * 1024
const MOST_NOTES = 50

/**
 * What is found in the files, each certificate and key once, within bounds: what is kept of an upload, and the answer
 * that shows it, stay small whatever comes.
 */
export class Pieces {
  readonly certificates: PieceCertificate[] = []
  readonly keys: KeyObject[] = []
  /** Certificates and keys that are not among these. */
  readonly leftOut: LeftOut[] = []
  /** What is neither certificate nor key, as sentences. */
  readonly ignored = new Set<string>()
  readonly #known = new Set<string>()
  #bytes = 0

  /** Throws an UnusableError for one that we do not take. */
  addCertificate(der: Buffer): void {
    if (der.length > LARGEST_CERTIFICATE_BYTES) {
      throw new UnusableError(`it is larger than ${LARGEST_CERTIFICATE_BYTES / 1024} KiB`)
    }
    const certificate = certificateOf(der)
    if (this.#isKnown(certificate.facts.fingerprint_sha256)) return
    if (this.certificates.length === MOST_CERTIFICATES) {
      throw new TooMuchError(`it holds more than ${MOST_CERTIFICATES} certificates`)
    }
    this.#bytes += der.length
    if (this.#bytes > MOST_BYTES) {
      throw new TooMuchError(`its certificates have more than ${MOST_BYTES / 1024 / 1024} MiB`)
    }
    this.certificates.push(certificate)
  }

  addKey(key: KeyObject): void {
    if (this.#isKnown(key.export({ format: 'der', type: 'pkcs8' }).toString('base64'))) return
    if (this.keys.length === MOST_KEYS) throw new TooMuchError(`it holds more than ${MOST_KEYS} private keys`)
    this.keys.push(key)
  }

  /** Keeps the reason why one item cannot be used, so that the others can. */
  leaveOut(leftOut: LeftOut): void {
    if (this.leftOut.length < MOST_NOTES) this.leftOut.push(leftOut)
  }

  ignore(sentence: string): void {
    if (this.ignored.size < MOST_NOTES) this.ignored.add(sentence)
  }

  #isKnown(identity: string): boolean {
    if (this.#known.has(identity)) return true
    this.#known.add(identity)
    return false
  }
}

function certificateOf(der: Buffer): PieceCertificate {
  try {
    const x509 = new X509Certificate(der)
    return { x509, facts: factsOf(x509) }
  } catch (thrown) {
    throw thrown instanceof UnusableError ? thrown : new UnusableError('it is damaged', { cause: thrown })
  }
}
