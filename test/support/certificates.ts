import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { isIP } from 'node:net'
import {
  algorithmIdentifier,
  bitString,
  boolean,
  element,
  integer,
  NULL,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
  tagged,
  time,
  toBuffer,
} from '../../actors/as2/protocol/asn1/writer.ts'
import type { Part } from '../../actors/as2/protocol/asn1/writer.ts'

const DAY_MS = 86_400_000
const OID = {
  commonName: '2.5.4.3',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  sha256WithRsa: '1.2.840.113549.1.1.11',
  rsaPss: '1.2.840.113549.1.1.10',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  ed25519: '1.3.101.112',
  sha256: '2.16.840.1.101.3.4.2.1',
  mgf1: '1.2.840.113549.1.1.8',
} as const

type KeyType = 'rsa' | 'ec' | 'ed25519' | 'rsa-pss'

export interface CertificateWishes {
  readonly commonName: string
  /** Key size in bits; default 2048. */
  readonly keyBits?: number
  /** Days until the end of validity, negative for an expired certificate; default 365. */
  readonly days?: number
  /** Days since the beginning of validity, negative for one that is not yet valid; default 1. */
  readonly age?: number
  /** Names and IPv4 addresses for TLS; default none. */
  readonly hosts?: readonly string[]
  /** Default `rsa`. */
  readonly keyType?: KeyType
  /** Of an `ec` key; default P-256. */
  readonly curve?: string
  /** Of an `rsa` key; default 65537. */
  readonly publicExponent?: number
  /** The key of an earlier certificate, which is renewed; `keyType` must be its type. */
  readonly key?: KeyPair
  /** Who signs; default itself. */
  readonly issuer?: TestCertificate
  /** Whether it may sign others; default false. */
  readonly authority?: boolean
  /** Parts as they are, where a test wants what no issuer would write. */
  readonly raw?: {
    readonly serialNumber?: Part
    readonly subject?: Buffer
    readonly validity?: Part
    readonly publicKeyInfo?: Buffer
    readonly extensions?: readonly Part[]
  }
}

export interface KeyPair {
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
}

export interface TestCertificate extends KeyPair {
  /** DER. */
  readonly certificate: Buffer
  readonly certificatePem: string
  /** PKCS#8. */
  readonly privateKeyPem: string
  /** DER of its name. */
  readonly subject: Buffer
  readonly keyType: KeyType
}

/** A certificate for signing and encryption, signed with SHA-256 by its issuer or itself. */
export function makeCertificate(wishes: CertificateWishes): TestCertificate {
  const { commonName, days = 365, age = 1, hosts = [], issuer, authority = false, raw = {} } = wishes
  const { keyType = 'rsa' } = wishes
  const { privateKey, publicKey } = wishes.key ?? makeKey(keyType, wishes)
  const privateKeyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const publicKeyInfo = raw.publicKeyInfo ?? publicKey.export({ type: 'spki', format: 'der' })
  const subject = raw.subject ?? nameOf(commonName)
  const notAfter = new Date(Date.now() + days * DAY_MS)
  const notBefore = new Date(Math.min(Date.now(), notAfter.getTime()) - age * DAY_MS)
  const algorithm = signatureAlgorithm(issuer?.keyType ?? keyType)
  const tbs = toBuffer(
    sequence(
      tagged(0, integer(2)),
      raw.serialNumber ?? integer(Buffer.concat([Buffer.from([0x01]), randomBytes(15)])),
      algorithm,
      issuer?.subject ?? subject,
      raw.validity ?? sequence(time(notBefore), time(notAfter)),
      subject,
      publicKeyInfo,
      tagged(3, sequence(...(raw.extensions ?? extensions(publicKeyInfo, hosts, authority)))),
    ),
  )
  const key = issuer?.privateKey ?? privateKey
  const digest = key.asymmetricKeyType === 'ed25519' ? null : 'sha256'
  const signature = sign(digest, tbs, key.asymmetricKeyType === 'rsa-pss' ? { key, saltLength: 32 } : key)
  const certificate = toBuffer(sequence(tbs, algorithm, bitString(signature)))
  const base64 = certificate.toString('base64').replace(/(.{64})/g, '$1\n')
  const certificatePem = `-----BEGIN CERTIFICATE-----\n${base64.trimEnd()}\n-----END CERTIFICATE-----\n`
  return { certificate, certificatePem, privateKey, publicKey, privateKeyPem, subject, keyType }
}

function makeKey(
  keyType: KeyType,
  { keyBits = 2048, curve = 'P-256', publicExponent = 65537 }: CertificateWishes,
): KeyPair {
  switch (keyType) {
    case 'rsa':
      return generateKeyPairSync('rsa', { modulusLength: keyBits, publicExponent })
    case 'rsa-pss':
      return generateKeyPairSync('rsa-pss', {
        modulusLength: keyBits,
        hashAlgorithm: 'sha256',
        mgf1HashAlgorithm: 'sha256',
      })
    case 'ec':
      return generateKeyPairSync('ec', { namedCurve: curve })
    case 'ed25519':
      return generateKeyPairSync('ed25519')
  }
}

/** A name of one common name. */
export function nameOf(commonName: string): Buffer {
  return toBuffer(
    sequence(
      setOf(sequence(objectIdentifier(OID.commonName), element(0x0c, Buffer.from(commonName, 'utf8')))),
    ),
  )
}

function signatureAlgorithm(keyType: KeyType): Part {
  switch (keyType) {
    case 'rsa':
      return algorithmIdentifier(OID.sha256WithRsa, NULL)
    case 'rsa-pss': {
      // RFC 4055 §3.1: hash, mask generation and length of the salt.
      const digest = algorithmIdentifier(OID.sha256)
      const parts = [
        tagged(0, digest),
        tagged(1, algorithmIdentifier(OID.mgf1, digest)),
        tagged(2, integer(32)),
      ]
      return algorithmIdentifier(OID.rsaPss, sequence(...parts))
    }
    case 'ec':
      return algorithmIdentifier(OID.ecdsaWithSha256)
    case 'ed25519':
      return algorithmIdentifier(OID.ed25519)
  }
}

function extensions(publicKeyInfo: Buffer, hosts: readonly string[], authority: boolean): Part[] {
  const keyIdentifier = createHash('sha1').update(publicKeyInfo).digest()
  const list = [
    extension(OID.subjectKeyIdentifier, false, octetString(keyIdentifier)),
    // digitalSignature and keyEncipherment, five unused bits; keyCertSign for an authority
    extension(OID.keyUsage, true, element(0x03, authority ? Buffer.from([2, 0xa4]) : Buffer.from([5, 0xa0]))),
  ]
  if (hosts.length > 0) list.push(extension(OID.subjectAltName, false, sequence(...hosts.map(generalName))))
  if (authority) list.push(extension(OID.basicConstraints, true, sequence(boolean(true))))
  return list
}

export function extension(oid: string, critical: boolean, value: Part): Part {
  const flag = critical ? [boolean(true)] : []
  return sequence(objectIdentifier(oid), ...flag, octetString(toBuffer(value)))
}

function generalName(host: string): Part {
  return isIP(host) === 4
    ? element(0x87, Buffer.from(host.split('.').map(Number)))
    : element(0x82, Buffer.from(host, 'latin1'))
}
