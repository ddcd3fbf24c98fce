import {
  element,
  integer,
  objectIdentifier,
  sequence,
  setOf,
  tagged,
  toBuffer,
  type Part,
} from '../../actors/as2/protocol/asn1/writer.ts'
import type { TestCertificate } from './certificates.ts'

const SIGNED_DATA = '1.2.840.113549.1.7.2'
const DATA = '1.2.840.113549.1.7.1'

/** A PKCS#7 file that holds certificates alone (RFC 5652 §5.1), as DER. */
export function writePkcs7(certificates: readonly TestCertificate[], others: readonly Buffer[] = []): Buffer {
  const set = tagged(0, ...certificates.map(({ certificate }) => certificate), ...others)
  const signedData = sequence(integer(1), setOf(), sequence(objectIdentifier(DATA)), set, setOf())
  return toBuffer(sequence(objectIdentifier(SIGNED_DATA), tagged(0, signedData)))
}

/** The same as BER with indefinite lengths, as programs of Java and Windows write it. */
export function writeBerPkcs7(certificates: readonly TestCertificate[]): Buffer {
  const set = indefinite(0xa0, ...certificates.map(({ certificate }) => certificate))
  const content = indefinite(0x30, objectIdentifier(DATA))
  const signedData = indefinite(0x30, integer(1), setOf(), content, set, setOf())
  return indefinite(0x30, objectIdentifier(SIGNED_DATA), indefinite(0xa0, signedData))
}

function indefinite(tag: number, ...parts: readonly Part[]): Buffer {
  return Buffer.concat([Buffer.from([tag, 0x80]), ...parts.map(toBuffer), Buffer.from([0, 0])])
}

/** An attribute certificate, which is none of X.509, among the certificates of a PKCS#7 file. */
export const ATTRIBUTE_CERTIFICATE: Buffer = toBuffer(element(0xa1, integer(1)))
