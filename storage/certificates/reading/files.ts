import type { KeyObject } from 'node:crypto'
import { DerError, readDer, TAG, type DerElement } from './der.ts'
import { kindOf } from './kind.ts'
import type { Opening } from './password/decrypt.ts'
import { decryptPemKey } from './password/pem-encryption.ts'
import { bareBase64, pemTextOf, readPem, type PemBlock } from './pem.ts'
import type { LeftOut, Pieces } from './pieces.ts'
import { readPkcs12 } from './pkcs12.ts'
import { readPkcs7 } from './pkcs7.ts'
import { readDecryptedKey, readPrivateKey } from './private-key.ts'
import { TooMuchError, UnreadableError, UnusableError } from './refusal.ts'

/** One file of an upload, in any format: what is in it is added to the pieces. */
export interface Reading {
  readonly pieces: Pieces
  readonly opening: Opening
}

/** Throws a WrongPasswordError, an UnusableError or an UnreadableError. */
export function readFile(bytes: Buffer, reading: Reading): void {
  const text = pemTextOf(bytes)
  if (text === null) readBinary(bytes, reading)
  else for (const block of readPem(text)) readBlock(block, reading)
}

/** The file is in no format that we know. */
export class UnknownFormatError extends UnreadableError {}

/** DER or BER, or the base64 of it; some programs write several elements one after the other. */
function readBinary(bytes: Buffer, reading: Reading): void {
  const der = bareBase64(bytes) ?? bytes
  let element = firstElement(der)
  const end = endOf(der)
  readElement(element, reading)
  for (let at = element.raw.length; at < end; at += element.raw.length) {
    const next = elementOrNull(der.subarray(at))
    if (next === null || kindOrNull(next) === null) {
      reading.pieces.ignore(`${end - at} bytes at the end of the file were ignored.`)
      return
    }
    element = next
    readElement(element, reading)
  }
}

function firstElement(der: Buffer): DerElement {
  const element = elementOrNull(der)
  // Every binary format is one sequence; a text may begin with its tag, the sign `0`.
  if (element === null || element.tag !== TAG.sequence || kindOrNull(element) === null) {
    throw new UnknownFormatError(FOREIGN.find(({ start }) => startsWith(der, start))?.text ?? '')
  }
  return element
}

/** Files that people take for one of ours. */
const FOREIGN = [
  {
    start: [0xfe, 0xed, 0xfe, 0xed],
    text: 'it is a Java keystore (JKS): convert it to PKCS#12 with keytool',
  },
  {
    start: [0xce, 0xce, 0xce, 0xce],
    text: 'it is a Java keystore (JCEKS): convert it to PKCS#12 with keytool',
  },
  { start: [0x50, 0x4b, 0x03, 0x04], text: 'it is a ZIP archive: upload the file that is in it' },
] as const

function startsWith(bytes: Buffer, start: readonly number[]): boolean {
  return start.every((octet, at) => bytes[at] === octet)
}

function elementOrNull(bytes: Buffer): DerElement | null {
  return orNull(() => readDer(bytes))
}

function kindOrNull(element: DerElement): ReturnType<typeof kindOf> {
  return orNull(() => kindOf(element))
}

function orNull<T>(read: () => T): T | null {
  try {
    return read()
  } catch (thrown) {
    if (thrown instanceof DerError) return null
    throw thrown
  }
}

/** Where a line end or a padding begins that a program has appended. */
function endOf(bytes: Buffer): number {
  let end = bytes.length
  while (end > 0 && isAppended(bytes[end - 1])) end -= 1
  return end
}

/** NUL, tab, line ends, the end of a file of DOS, space. */
function isAppended(octet: number | undefined): boolean {
  return (
    octet === 0x00 || octet === 0x09 || octet === 0x0a || octet === 0x0d || octet === 0x1a || octet === 0x20
  )
}

function readBlock(block: PemBlock, reading: Reading): void {
  const { label, bytes, encryption } = block
  const { pieces, opening } = reading
  const isKey = label.endsWith('PRIVATE KEY')
  if (encryption !== null) {
    addKey(() => readDecryptedKey(decryptPemKey(encryption, bytes, opening.password)), reading)
    return
  }
  const element = elementOrNull(bytes)
  if (element !== null && kindOrNull(element) !== null) readElement(element, reading)
  else if (isKey)
    pieces.leaveOut({ noun: 'private key', reason: `the block ${label} is damaged or not supported` })
  else if (label.endsWith('CERTIFICATE')) pieces.leaveOut({ noun: 'certificate', reason: 'it is damaged' })
  // Parameters of a curve stand before its key.
  else if (label !== 'EC PARAMETERS') pieces.ignore(`A block ${label} was ignored.`)
}

function readElement(element: DerElement, reading: Reading): void {
  const { pieces, opening } = reading
  const kind = kindOf(element)
  switch (kind) {
    case 'certificate':
      addCertificate(element.raw, reading)
      return
    case 'private key':
      addKey(() => readPrivateKey(element, opening), reading)
      return
    case 'PKCS#7': {
      const { certificates, others } = readPkcs7(element)
      for (const certificate of certificates) addCertificate(certificate, reading)
      if (others > 0) pieces.ignore('Attribute certificates were ignored.')
      return
    }
    case 'PKCS#12': {
      const content = readPkcs12(element, opening)
      for (const certificate of content.certificates) addCertificate(certificate, reading)
      for (const key of content.privateKeys) addKey(() => readPrivateKey(readDer(key), opening), reading)
      if (content.others > 0) pieces.ignore('Entries that are neither certificate nor key were ignored.')
      return
    }
    case 'certificate request':
    case 'revocation list':
    case 'public key':
      pieces.ignore(`A ${kind} was ignored: it is neither a certificate nor a private key.`)
      return
    case null:
      throw new UnreadableError('it is damaged')
  }
}

function addCertificate(der: Buffer, { pieces }: Reading): void {
  leavingOut(pieces, 'certificate', () => pieces.addCertificate(der))
}

function addKey(read: () => KeyObject, { pieces }: Reading): void {
  leavingOut(pieces, 'private key', () => pieces.addKey(read()))
}

/** One item that cannot be used does not keep the others from being used. */
function leavingOut(pieces: Pieces, noun: LeftOut['noun'], add: () => void): void {
  try {
    add()
  } catch (thrown) {
    if (thrown instanceof TooMuchError || !(thrown instanceof UnusableError)) throw thrown
    pieces.leaveOut({ noun, reason: thrown.message })
  }
}
