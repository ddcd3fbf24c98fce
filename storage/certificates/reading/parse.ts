import type { KeyObject } from 'node:crypto'
import { validationFailure, type WaybillError } from '../../../runtime/errors.ts'
import { readFile, UnknownFormatError } from './files.ts'
import { keyFacts } from './facts.ts'
import type { FoundMaterial } from './material.ts'
import { notesOf } from './notes.ts'
import { pairsOf, type Pairs } from './pairing.ts'
import type { Opening } from './password/decrypt.ts'
import { WorkBudget } from './password/work-budget.ts'
import { Pieces } from './pieces.ts'
import { refusalOf, type Part } from './refusal.ts'

/** What an upload holds. A pure function of its bytes: it runs in any thread. */

export interface Upload {
  readonly certificate: Uint8Array
  readonly privateKey: Uint8Array | undefined
  /** Opens PKCS#12 and encrypted keys; empty for none. */
  readonly password: string
}

/**
 * Reads PEM, DER, PKCS#7 and PKCS#12. Throws a validation failure on `certificate`, `private_key` or `password` that
 * says what is wrong with the file; nothing in it is trusted, and its work is bounded. `onPart` is told which part is
 * read next.
 */
export function parseUpload(upload: Upload, onPart: (part: Part) => void = () => undefined): FoundMaterial {
  const opening = { password: upload.password, budget: new WorkBudget() }
  onPart('certificate')
  const pieces = readPart('certificate', upload.certificate, opening)
  if (upload.privateKey !== undefined) onPart('private_key')
  const own = upload.privateKey === undefined ? null : readPart('private_key', upload.privateKey, opening)
  if (own !== null) addKeys(own, pieces)
  const pairs = pairsOf(pieces)
  refuseForeignKeys(pieces, own, pairs)
  return {
    certificates: pieces.certificates.map(({ x509, facts }, at) => {
      return { der: x509.raw, facts, keyIndex: pairs.keyOfCertificate[at] ?? null }
    }),
    keys: pieces.keys.map((key, at) => {
      const pkcs8 = key.export({ format: 'der', type: 'pkcs8' })
      return { pkcs8, ...keyFacts(key), certificateIndex: pairs.certificateOfKey[at] ?? null }
    }),
    notes: notesOf(pieces, pairs),
    leftOut: pieces.leftOut.length > 0,
  }
}

function readPart(part: Part, bytes: Uint8Array, opening: Opening): Pieces {
  const pieces = new Pieces()
  try {
    readFile(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), { pieces, opening })
  } catch (thrown) {
    throw thrown instanceof UnknownFormatError
      ? unknownFormat(part, thrown)
      : refusalOf(part, thrown, opening.password)
  }
  const nothing = pieces.keys.length === 0 && (part === 'private_key' || pieces.certificates.length === 0)
  if (nothing) throw emptyFile(part, pieces)
  return pieces
}

const FORMATS = {
  certificate: 'is no certificate in a supported format (PEM, DER, PKCS#7, PKCS#12)',
  private_key: 'is no private key in a supported format (PEM, DER)',
} as const satisfies Record<Part, string>

function unknownFormat(part: Part, { message }: UnknownFormatError): WaybillError {
  return validationFailure({
    [part]:
      message === '' ? `the file ${FORMATS[part]}, or it is cut off` : `the file cannot be used: ${message}`,
  })
}

function emptyFile(part: Part, { leftOut, ignored }: Pieces): WaybillError {
  const [first] = leftOut
  if (first !== undefined) {
    return validationFailure({ [part]: `the ${first.noun} in the file cannot be used: ${first.reason}` })
  }
  const noun = part === 'certificate' ? 'neither a certificate nor a private key' : 'no private key'
  return validationFailure({ [part]: [`the file holds ${noun}.`, ...ignored].join(' ').replace(/\.$/, '') })
}

function addKeys(own: Pieces, pieces: Pieces): void {
  try {
    for (const key of own.keys) pieces.addKey(key)
  } catch (thrown) {
    throw refusalOf('private_key', thrown, '')
  }
  pieces.leftOut.push(...own.leftOut)
  for (const sentence of own.ignored) pieces.ignore(sentence)
  if (own.certificates.length > 0) pieces.ignore('Certificates beside the private key were ignored.')
}

/**
 * A key that was uploaded for a certificate must belong to it, and so must the key beside a single one. In a bundle a
 * key may stand alone.
 */
function refuseForeignKeys({ certificates, keys }: Pieces, own: Pieces | null, pairs: Pairs): void {
  const paired = keys.filter((_, at) => pairs.certificateOfKey[at] !== null)
  const belongs = (key: KeyObject): boolean => paired.some((each) => each.equals(key))
  const single = certificates.length === 1
  const foreign =
    (own !== null && !own.keys.some(belongs)) || (single && keys.length > 0 && paired.length === 0)
  if (certificates.length === 0 || !foreign) return
  throw validationFailure({
    private_key: single
      ? 'the private key does not belong to the certificate'
      : 'the private key belongs to none of the certificates',
  })
}
