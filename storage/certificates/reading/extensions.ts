import type { X509Certificate } from 'node:crypto'
import {
  childrenOf,
  contextTag,
  integerOf,
  objectIdentifierOf,
  octetsOf,
  readDer,
  TAG,
  type DerElement,
} from './der.ts'

/** An extension of a certificate (RFC 5280 §4.2) in words. */
export interface CertificateExtension {
  /** Dotted decimal. */
  readonly oid: string
  /** As RFC 5280 names it; the OID for one that we do not know. */
  readonly name: string
  readonly critical: boolean
  /** Readable for the usual ones, hexadecimal for the others. */
  readonly value: string
}

const MOST_EXTENSIONS = 100
export const LONGEST_VALUE = 4000
/** Ends a value that was cut. */
const CUT = ' …'

interface Known {
  readonly name: string
  readonly describe?: (value: DerElement, certificate: X509Certificate) => string
}

const KNOWN: Readonly<Record<string, Known>> = {
  '2.5.29.14': { name: 'subjectKeyIdentifier', describe: (value) => octetsOf(value).toString('hex') },
  '2.5.29.15': { name: 'keyUsage', describe: keyUsage },
  '2.5.29.17': { name: 'subjectAltName', describe: (_, certificate) => certificate.subjectAltName ?? '' },
  '2.5.29.18': { name: 'issuerAltName' },
  '2.5.29.19': { name: 'basicConstraints', describe: basicConstraints },
  '2.5.29.30': { name: 'nameConstraints' },
  '2.5.29.31': { name: 'cRLDistributionPoints' },
  '2.5.29.32': { name: 'certificatePolicies', describe: certificatePolicies },
  '2.5.29.35': { name: 'authorityKeyIdentifier', describe: authorityKeyIdentifier },
  '2.5.29.37': { name: 'extKeyUsage', describe: extendedKeyUsage },
  '1.3.6.1.5.5.7.1.1': {
    name: 'authorityInfoAccess',
    describe: (_, certificate) => (certificate.infoAccess ?? '').trim().replaceAll('\n', ', '),
  },
}

export function extensionsOf(certificate: X509Certificate): readonly CertificateExtension[] {
  const [tbs] = childrenOf(readDer(certificate.raw))
  const list = tbs === undefined ? undefined : childrenOf(tbs).find((part) => part.tag === contextTag(3))
  const [extensions] = list === undefined ? [] : childrenOf(list)
  if (extensions === undefined) return []
  return childrenOf(extensions)
    .slice(0, MOST_EXTENSIONS)
    .map((extension) => describeExtension(extension, certificate))
}

function describeExtension(extension: DerElement, certificate: X509Certificate): CertificateExtension {
  const parts = childrenOf(extension)
  const [identifier] = parts
  const octets = parts.at(-1)
  if (identifier === undefined || octets === undefined)
    throw new Error('An extension has an identifier and a value')
  const oid = objectIdentifierOf(identifier)
  const critical = parts.some((part) => part.tag === TAG.boolean && part.content[0] !== 0)
  const known = KNOWN[oid]
  const value = describeValue(known, octetsOf(octets), certificate)
  return { oid, name: known?.name ?? oid, critical, value: storable(value) }
}

function storable(value: string): string {
  const shown = value.length > LONGEST_VALUE ? `${value.slice(0, LONGEST_VALUE)}${CUT}` : value
  return shown.replaceAll('\0', String.raw`\00`).toWellFormed()
}

/** A value that is not built as its kind says is shown as it is. */
function describeValue(known: Known | undefined, octets: Buffer, certificate: X509Certificate): string {
  if (known?.describe === undefined) return octets.toString('hex')
  try {
    return known.describe(readDer(octets), certificate)
  } catch {
    return octets.toString('hex')
  }
}

/** RFC 5280 §4.2.1.3, from bit 0. */
const KEY_USAGES = [
  'digitalSignature',
  'nonRepudiation',
  'keyEncipherment',
  'dataEncipherment',
  'keyAgreement',
  'keyCertSign',
  'cRLSign',
  'encipherOnly',
  'decipherOnly',
]

function keyUsage(value: DerElement): string {
  // The first octet counts the unused bits.
  const bits = value.content.subarray(1)
  return KEY_USAGES.filter((_, bit) => ((bits[bit >> 3] ?? 0) & (0x80 >> (bit & 7))) !== 0).join(', ')
}

function basicConstraints(value: DerElement): string {
  const parts = childrenOf(value)
  const authority = parts.some((part) => part.tag === TAG.boolean && part.content[0] !== 0)
  const length = parts.find((part) => part.tag === TAG.integer)
  return `CA: ${authority}${length === undefined ? '' : `, path length ${integerOf(length)}`}`
}

/** RFC 5280 §4.2.1.12 and the purposes that programs ask for most. */
const PURPOSES: Readonly<Record<string, string>> = {
  '1.3.6.1.5.5.7.3.1': 'serverAuth',
  '1.3.6.1.5.5.7.3.2': 'clientAuth',
  '1.3.6.1.5.5.7.3.3': 'codeSigning',
  '1.3.6.1.5.5.7.3.4': 'emailProtection',
  '1.3.6.1.5.5.7.3.8': 'timeStamping',
  '1.3.6.1.5.5.7.3.9': 'OCSPSigning',
  '2.5.29.37.0': 'anyExtendedKeyUsage',
}

function extendedKeyUsage(value: DerElement): string {
  return childrenOf(value)
    .map(objectIdentifierOf)
    .map((oid) => PURPOSES[oid] ?? oid)
    .join(', ')
}

function certificatePolicies(value: DerElement): string {
  return childrenOf(value)
    .map((policy) => childrenOf(policy)[0])
    .map((oid) => (oid === undefined ? '' : objectIdentifierOf(oid)))
    .join(', ')
}

/** `[0] IMPLICIT` is the key identifier; issuer and serial number beside it are rare. */
function authorityKeyIdentifier(value: DerElement): string {
  const identifier = childrenOf(value).find((part) => part.tag === 0x80)
  return identifier === undefined ? value.raw.toString('hex') : identifier.content.toString('hex')
}
