import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto'
import { reasonOf, validationFailure } from '../../runtime/errors.ts'
import { childrenOf, DerError, readDer, TAG } from './der.ts'
import { factsOf, keyFacts, UnusableError, type CertificateFacts } from './facts.ts'
import {
  decryptPrivateKey,
  UnsupportedAlgorithmError,
  WorkBudget,
  WrongPasswordError,
} from './password-encryption.ts'
import { looksLikePem, readPem, type PemBlock } from './pem.ts'
import { looksLikePkcs12, readPkcs12 } from './pkcs12.ts'

/** What an upload holds. A pure function of its bytes: it can run in any thread. */

export interface Upload {
  readonly certificate: Uint8Array
  readonly privateKey: Uint8Array | undefined
  /** Opens PKCS#12 and encrypted keys; empty for none. */
  readonly password: string
}

export interface FoundCertificate {
  readonly der: Buffer
  readonly facts: CertificateFacts
  /** Index among the keys of the one that belongs to it, or null. */
  readonly keyIndex: number | null
}

export interface FoundKey {
  /** PKCS#8 DER, not encrypted. */
  readonly pkcs8: Buffer
  readonly algorithm: string
  /** Bits. */
  readonly size: number
}

export interface FoundMaterial {
  /** Each certificate once, in the order of the files. */
  readonly certificates: readonly FoundCertificate[]
  readonly keys: readonly FoundKey[]
}

type Part = 'certificate' | 'private_key'

interface Pieces {
  readonly certificates: X509Certificate[]
  readonly keys: KeyObject[]
}

/**
 * Reads PEM, DER and PKCS#12. Throws a validation failure on `certificate`, `private_key` or `password` that says
 * what is wrong with the file; nothing in it is trusted, and its work is bounded.
 */
export function parseUpload(upload: Upload): FoundMaterial {
  const budget = new WorkBudget()
  const { password } = upload
  const pieces: Pieces = { certificates: [], keys: [] }
  readPart('certificate', Buffer.from(upload.certificate), { pieces, password, budget })
  if (upload.privateKey !== undefined) {
    const own: Pieces = { certificates: [], keys: [] }
    readPart('private_key', Buffer.from(upload.privateKey), { pieces: own, password, budget })
    if (own.keys.length === 0) throw validationFailure({ private_key: 'the file holds no private key' })
    pieces.keys.push(...own.keys)
  }
  return paired(pieces)
}

interface Reading {
  readonly pieces: Pieces
  readonly password: string
  readonly budget: WorkBudget
}

function readPart(part: Part, bytes: Buffer, reading: Reading): void {
  const pem = looksLikePem(bytes)
  if (!pem) refuseOtherFormats(part, bytes)
  try {
    if (pem) {
      for (const block of readPem(bytes.toString('latin1'))) readBlock(block, reading)
    } else {
      readBinary(bytes, reading)
    }
  } catch (thrown) {
    throw refusal(part, thrown, reading.password)
  }
}

function refusal(part: Part, thrown: unknown, password: string): Error {
  if (thrown instanceof WrongPasswordError) {
    const text = password === '' ? 'is required to open the file' : 'does not open the file'
    return validationFailure({ password: text })
  }
  if (thrown instanceof DerError)
    return validationFailure({ [part]: `the file cannot be read: ${thrown.message}` })
  if (thrown instanceof UnsupportedAlgorithmError || thrown instanceof UnusableError) {
    return validationFailure({ [part]: `the file cannot be used: ${thrown.message}` })
  }
  return validationFailure({ [part]: `the file cannot be read: ${reasonOf(thrown)}` })
}

function readBlock(block: PemBlock, reading: Reading): void {
  const { pieces, password } = reading
  switch (block.label) {
    case 'CERTIFICATE':
    case 'X509 CERTIFICATE':
      pieces.certificates.push(readCertificate(block.bytes))
      return
    case 'ENCRYPTED PRIVATE KEY':
    case 'PRIVATE KEY':
      pieces.keys.push(readKey(block.bytes, reading))
      return
    case 'RSA PRIVATE KEY':
    case 'EC PRIVATE KEY':
      pieces.keys.push(block.encrypted ? readOldEncryptedKey(block, password) : readKey(block.bytes, reading))
      return
    // Parameters of a curve stand before its key; a public key and a request say nothing that a certificate does not.
    default:
  }
}

const FORMATS = {
  certificate: 'is no certificate in a supported format (PEM, DER, PKCS#12)',
  private_key: 'is no private key in a supported format (PEM, DER)',
} as const satisfies Record<Part, string>

/** All binary formats are one DER or BER sequence; a text may begin with its tag, the sign `0`. */
function refuseOtherFormats(part: Part, bytes: Buffer): void {
  try {
    if (readDer(bytes).tag === TAG.sequence) return
  } catch (thrown) {
    if (!(thrown instanceof DerError)) throw thrown
  }
  throw validationFailure({ [part]: `the file ${FORMATS[part]}, or it is cut off` })
}

function readBinary(bytes: Buffer, reading: Reading): void {
  const { pieces, password, budget } = reading
  if (looksLikePkcs12(bytes)) {
    const content = readPkcs12(bytes, password, budget)
    pieces.certificates.push(...content.certificates.map(readCertificate))
    pieces.keys.push(...content.privateKeys.map((key) => readKey(key, reading)))
    return
  }
  const certificate = certificateOrNull(bytes)
  if (certificate !== null) pieces.certificates.push(certificate)
  else pieces.keys.push(readKey(bytes, reading))
}

function readCertificate(bytes: Buffer): X509Certificate {
  const certificate = certificateOrNull(bytes)
  if (certificate === null) throw new UnusableError('a certificate in it is damaged')
  return certificate
}

/** Exactly one element, so that nothing after it passes for a part of the certificate. */
function certificateOrNull(bytes: Buffer): X509Certificate | null {
  try {
    return new X509Certificate(readDer(bytes).raw)
  } catch {
    return null
  }
}

/** PKCS#8, encrypted or not, PKCS#1 or SEC1, all as DER. */
function readKey(bytes: Buffer, reading: Reading): KeyObject {
  const element = readDer(bytes)
  const [first] = childrenOf(element)
  const key =
    first?.tag === TAG.sequence ? decryptPrivateKey(element, reading.password, reading.budget) : element.raw
  for (const type of ['pkcs8', 'pkcs1', 'sec1'] as const) {
    const found = keyOrNull(key, type)
    if (found !== null) return found
  }
  // Unpadding rarely notices a wrong password, so what comes out is no key.
  if (first?.tag === TAG.sequence) throw new WrongPasswordError('The key does not open')
  throw new UnusableError('it holds neither a certificate nor a private key')
}

function keyOrNull(key: Buffer, type: 'pkcs8' | 'pkcs1' | 'sec1'): KeyObject | null {
  try {
    return createPrivateKey({ key, format: 'der', type })
  } catch {
    return null
  }
}

/** RFC 1421 headers: one round of MD5 makes the key, so its work needs no bound. */
function readOldEncryptedKey(block: PemBlock, password: string): KeyObject {
  try {
    return createPrivateKey({ key: block.text, format: 'pem', passphrase: password })
  } catch (thrown) {
    throw new WrongPasswordError('The key does not open', { cause: thrown })
  }
}

/** Each certificate and key once, and which key belongs to which certificate. */
function paired(pieces: Pieces): FoundMaterial {
  const certificates = new Map(pieces.certificates.map((each) => [each.fingerprint256, each]))
  const keys = new Map(pieces.keys.map((each) => [exported(each).toString('base64'), each]))
  const objects = [...keys.values()]
  try {
    return {
      certificates: [...certificates.values()].map((certificate) => {
        const at = objects.findIndex((key) => certificate.checkPrivateKey(key))
        return { der: certificate.raw, facts: factsOf(certificate), keyIndex: at === -1 ? null : at }
      }),
      keys: objects.map(foundKey),
    }
  } catch (thrown) {
    throw refusal('certificate', thrown, '')
  }
}

function foundKey(key: KeyObject): FoundKey {
  const { algorithm, size } = keyFacts(key)
  return { pkcs8: exported(key), algorithm, size }
}

function exported(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'pkcs8' })
}
