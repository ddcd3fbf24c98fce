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
  sha256WithRsa: '1.2.840.113549.1.1.11',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
} as const

export interface CertificateWishes {
  readonly commonName: string
  /** Key size in bits; default 2048. */
  readonly keyBits?: number
  /** Days until the end of validity, negative for an expired certificate; default 365. */
  readonly days?: number
  /** Names and IPv4 addresses for TLS; default none. */
  readonly hosts?: readonly string[]
  /** Default `rsa`; `ec` makes a P-256 key. */
  readonly keyType?: 'rsa' | 'ec'
}

export interface TestCertificate {
  /** DER. */
  readonly certificate: Buffer
  readonly certificatePem: string
  readonly privateKey: KeyObject
  /** PKCS#8. */
  readonly privateKeyPem: string
}

/** A self-signed certificate for signing and encryption, signed with SHA-256. */
export function makeCertificate(wishes: CertificateWishes): TestCertificate {
  const { commonName, keyBits = 2048, days = 365, hosts = [], keyType = 'rsa' } = wishes
  const { privateKey, publicKey } =
    keyType === 'rsa'
      ? generateKeyPairSync('rsa', { modulusLength: keyBits })
      : generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const privateKeyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const publicKeyInfo = publicKey.export({ type: 'spki', format: 'der' })
  const name = sequence(
    setOf(sequence(objectIdentifier(OID.commonName), element(0x0c, Buffer.from(commonName, 'utf8')))),
  )
  const notAfter = new Date(Date.now() + days * DAY_MS)
  const notBefore = new Date(Math.min(Date.now(), notAfter.getTime()) - DAY_MS)
  const algorithm =
    keyType === 'rsa'
      ? algorithmIdentifier(OID.sha256WithRsa, NULL)
      : algorithmIdentifier(OID.ecdsaWithSha256)
  const tbs = toBuffer(
    sequence(
      tagged(0, integer(2)),
      integer(Buffer.concat([Buffer.from([0x01]), randomBytes(15)])),
      algorithm,
      name,
      sequence(time(notBefore), time(notAfter)),
      name,
      publicKeyInfo,
      tagged(3, sequence(...extensions(publicKeyInfo, hosts))),
    ),
  )
  const certificate = toBuffer(sequence(tbs, algorithm, bitString(sign('sha256', tbs, privateKey))))
  const base64 = certificate.toString('base64').replace(/(.{64})/g, '$1\n')
  const certificatePem = `-----BEGIN CERTIFICATE-----\n${base64.trimEnd()}\n-----END CERTIFICATE-----\n`
  return { certificate, certificatePem, privateKey, privateKeyPem }
}

function extensions(publicKeyInfo: Buffer, hosts: readonly string[]): Part[] {
  const keyIdentifier = createHash('sha1').update(publicKeyInfo).digest()
  const list = [
    extension(OID.subjectKeyIdentifier, false, octetString(keyIdentifier)),
    // digitalSignature and keyEncipherment, five unused bits
    extension(OID.keyUsage, true, element(0x03, Buffer.from([5, 0xa0]))),
  ]
  if (hosts.length > 0) list.push(extension(OID.subjectAltName, false, sequence(...hosts.map(generalName))))
  return list
}

function extension(oid: string, critical: boolean, value: Part): Part {
  const flag = critical ? [boolean(true)] : []
  return sequence(objectIdentifier(oid), ...flag, octetString(toBuffer(value)))
}

function generalName(host: string): Part {
  return isIP(host) === 4
    ? element(0x87, Buffer.from(host.split('.').map(Number)))
    : element(0x82, Buffer.from(host, 'latin1'))
}
