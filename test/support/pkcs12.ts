import { createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import forge from 'node-forge'
import {
  algorithmIdentifier,
  element,
  integer,
  NULL,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
  tagged,
  toBuffer,
  type Part,
} from '../../actors/as2/protocol/asn1/writer.ts'
import type { TestCertificate } from './certificates.ts'
import {
  pbkdf2Algorithm,
  PKCS12_ITERATIONS,
  pkcs12Derived,
  sealedKey,
  sealWithPassword,
  type SealingName,
} from './password-sealing.ts'

/** A PKCS#12 file of an RSA certificate with its key, made by another implementation than the one that reads it. */
export function makePkcs12(
  made: TestCertificate,
  password: string,
  algorithm: 'aes128' | 'aes256' | '3des' = 'aes256',
): Uint8Array<ArrayBuffer> {
  const key = forge.pki.privateKeyFromPem(made.privateKey.export({ format: 'pem', type: 'pkcs1' }).toString())
  const certificate = forge.pki.certificateFromPem(made.certificatePem)
  const file = forge.pkcs12.toPkcs12Asn1(key, certificate, password, { algorithm, count: 100 })
  return new Uint8Array(Buffer.from(forge.asn1.toDer(file).getBytes(), 'binary'))
}

export interface Pkcs12Wishes {
  readonly certificates: readonly TestCertificate[]
  /** Whose private keys are in the file. */
  readonly keysOf?: readonly TestCertificate[]
  readonly password: string
  /** Default none: certificates and keys lie open. */
  readonly sealing?: SealingName
  /** Default `sha256`. `unmarked` is SHA-256 with an empty password that has not even an end mark. */
  readonly mac?: 'none' | 'sha1' | 'sha256' | 'sha512' | 'unmarked' | 'pbmac1'
  /** More bags beside them, such as one with a secret. */
  readonly bags?: readonly Part[]
}

const DATA = '1.2.840.113549.1.7.1'
const ENCRYPTED_DATA = '1.2.840.113549.1.7.6'

/** A PKCS#12 file (RFC 7292) with any algorithms. */
export function writePkcs12(wishes: Pkcs12Wishes): Buffer {
  const { certificates, keysOf = [], password, sealing, bags = [] } = wishes
  const keyBags = keysOf.map((made) => keyBag(made, password, sealing))
  const certificateBags = toBuffer(sequence(...certificates.map(certificateBag), ...bags))
  const parts = [
    dataContent(toBuffer(sequence(...keyBags))),
    sealing === undefined
      ? dataContent(certificateBags)
      : encryptedContent(certificateBags, password, sealing),
  ]
  const authenticated = toBuffer(sequence(...parts))
  return toBuffer(sequence(integer(3), dataContent(authenticated), ...macOf(authenticated, wishes)))
}

function dataContent(content: Buffer): Part {
  return sequence(objectIdentifier(DATA), tagged(0, octetString(content)))
}

function encryptedContent(content: Buffer, password: string, sealing: SealingName): Part {
  const sealed = sealWithPassword(content, password, sealing)
  const encrypted = sequence(objectIdentifier(DATA), sealed.algorithm, element(0x80, sealed.content))
  return sequence(objectIdentifier(ENCRYPTED_DATA), tagged(0, sequence(integer(0), encrypted)))
}

function keyBag(made: TestCertificate, password: string, sealing: SealingName | undefined): Part {
  const pkcs8 = made.privateKey.export({ format: 'der', type: 'pkcs8' })
  return sealing === undefined
    ? bag('1.2.840.113549.1.12.10.1.1', pkcs8)
    : bag('1.2.840.113549.1.12.10.1.2', sealedKey(pkcs8, password, sealing))
}

function certificateBag({ certificate }: TestCertificate): Part {
  const x509 = sequence(objectIdentifier('1.2.840.113549.1.9.22.1'), tagged(0, octetString(certificate)))
  return bag('1.2.840.113549.1.12.10.1.3', x509)
}

/** With the attribute that names it, as all programs write one. */
export function bag(oid: string, value: Part): Part {
  const name = element(0x1e, Buffer.from('name', 'utf16le').swap16())
  const attribute = sequence(objectIdentifier('1.2.840.113549.1.9.20'), setOf(name))
  return sequence(objectIdentifier(oid), tagged(0, value), setOf(attribute))
}

const DIGESTS = {
  sha1: { oid: '1.3.14.3.2.26', bytes: 20 },
  sha256: { oid: '2.16.840.1.101.3.4.2.1', bytes: 32 },
  sha512: { oid: '2.16.840.1.101.3.4.2.3', bytes: 64 },
} as const

function macOf(content: Buffer, { password, mac = 'sha256' }: Pkcs12Wishes): readonly Part[] {
  if (mac === 'none') return []
  const salt = randomBytes(8)
  if (mac === 'pbmac1') return [pbmac1(content, password, salt)]
  const name = mac === 'unmarked' ? 'sha256' : mac
  const { oid, bytes } = DIGESTS[name]
  const secret = mac === 'unmarked' ? null : password
  const key = pkcs12Derived(secret, salt, { id: 3, bytes, digest: name })
  const digest = octetString(createHmac(name, key).update(content).digest())
  const info = sequence(algorithmIdentifier(oid, NULL), digest)
  return [sequence(info, octetString(salt), integer(PKCS12_ITERATIONS))]
}

/** RFC 9579: the salt and the iterations beside it do not count. The key is shorter than the MAC, as it may be. */
function pbmac1(content: Buffer, password: string, salt: Buffer): Part {
  const hmacSha256 = '1.2.840.113549.2.9'
  const hmacSha512 = '1.2.840.113549.2.11'
  const parameters = sequence(pbkdf2Algorithm(salt, hmacSha256, 32), algorithmIdentifier(hmacSha512, NULL))
  const key = pbkdf2Sync(password, salt, PKCS12_ITERATIONS, 32, 'sha256')
  const digest = octetString(createHmac('sha512', key).update(content).digest())
  const algorithm = algorithmIdentifier('1.2.840.113549.1.5.14', parameters)
  return sequence(sequence(algorithm, digest), octetString(Buffer.from('NOT USED')), integer(1))
}
