import { randomBytes } from 'node:crypto'
import {
  algorithmIdentifier,
  bitString,
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
import { extension, makeCertificate, nameOf, type CertificateWishes } from './certificates.ts'
import { pemOf } from './pem.ts'

/** Uploads that want to cost the server time or memory, or to be stored as something that they are not. */

const MIB = 1024 * 1024

export interface HostileUpload {
  readonly name: string
  readonly certificate: Buffer
  readonly privateKey?: Buffer
  readonly password?: string
  /** The field that is to blame, and what is said about it. */
  readonly refusal: Readonly<Record<string, RegExp>>
}

const key = makeCertificate({ commonName: 'sound', keyType: 'ec' })

/** Those that are as large as they like to be have `largest` bytes. */
export function hostileUploads(largest = 2 * MIB): readonly HostileUpload[] {
  return [...shapes(largest), ...texts(largest), ...derivations(), ...certificates()]
}

const unknown = { certificate: /in a supported format/ }

function shapes(largest: number): HostileUpload[] {
  const filled = (...octets: number[]): Buffer => Buffer.alloc(largest, Buffer.from(octets))
  let nested: Buffer = Buffer.from([0x05, 0x00])
  for (let depth = 0; depth < 3000; depth += 1) nested = toBuffer(sequence(nested))
  const tiny = filled(0x05, 0x00)
  return [
    { name: 'nesting without end', certificate: filled(0x30, 0x80), refusal: unknown },
    { name: 'nesting three thousand deep', certificate: nested, refusal: unknown },
    {
      name: 'millions of elements',
      certificate: toBuffer(element(0x30, tiny.subarray(16))),
      refusal: unknown,
    },
    {
      name: 'millions of elements of indefinite length',
      certificate: Buffer.concat([Buffer.from([0x30, 0x80]), tiny.subarray(8), Buffer.alloc(2)]),
      refusal: unknown,
    },
    {
      name: 'a huge length',
      certificate: Buffer.from([0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 1]),
      refusal: unknown,
    },
    { name: 'zeros', certificate: filled(0), refusal: unknown },
    {
      name: 'a ZIP file of zeros',
      certificate: Buffer.concat([Buffer.from('PK\x03\x04'), filled(0).subarray(4)]),
      refusal: { certificate: /ZIP archive/ },
    },
    { name: 'random bytes', certificate: randomBytes(largest), refusal: unknown },
  ]
}

function texts(largest: number): HostileUpload[] {
  const text = (part: string, most = largest): Buffer =>
    Buffer.from(part.repeat(Math.floor(most / part.length)))
  const begin = '-----BEGIN CERTIFICATE-----\n'
  const end = '\n-----END CERTIFICATE-----\n'
  const around = (content: Buffer): Buffer =>
    Buffer.concat([Buffer.from(begin), content.subarray(0, largest - 100), Buffer.from(end)])
  return [
    {
      name: 'beginnings of PEM',
      certificate: text('-----BEGIN A-----'),
      refusal: { certificate: /has no end/ },
    },
    {
      name: 'beginnings of PEM with one end',
      certificate: Buffer.concat([text(begin).subarray(0, -100), Buffer.from(end)]),
      refusal: { certificate: /no end of its own/ },
    },
    {
      name: 'halves of beginnings of PEM',
      certificate: text('-----BEGIN '),
      refusal: { certificate: /neither a certificate nor a private key/ },
    },
    {
      name: 'one block of garbage',
      certificate: around(text(`${'A'.repeat(64)}\n`)),
      refusal: { certificate: /damaged/ },
    },
    {
      name: 'one block that is almost base64',
      certificate: around(text('A').fill('!', largest - 200)),
      refusal: { certificate: /is not base64/ },
    },
    {
      name: 'a block of headers',
      certificate: around(text('a:\n')),
      refusal: { certificate: /too many headers/ },
    },
    {
      name: 'many thousands of blocks',
      certificate: text('-----BEGIN X-----\nAAAA\n-----END X-----\n'),
      refusal: { certificate: /too many blocks/ },
    },
    {
      name: 'thousands of certificates',
      certificate: text(key.certificatePem),
      refusal: { certificate: /too many blocks/ },
    },
  ]
}

const ENDLESS = integer(Buffer.from([0x7f, 0xff, 0xff, 0xff]))
const AES_256 = algorithmIdentifier('2.16.840.1.101.3.4.1.42', octetString(Buffer.alloc(16)))

function pbes2Key(kdf: Part): Buffer {
  const algorithm = algorithmIdentifier('1.2.840.113549.1.5.13', sequence(kdf, AES_256))
  return toBuffer(sequence(algorithm, octetString(Buffer.alloc(32))))
}

function derivations(): HostileUpload[] {
  const password = 'x'
  const salt = octetString(Buffer.alloc(8))
  const scrypt = (...numbers: Part[]): Part =>
    algorithmIdentifier('1.3.6.1.4.1.11591.4.11', sequence(salt, ...numbers))
  const upload = (name: string, privateKey: Buffer, text: RegExp): HostileUpload => ({
    name,
    certificate: key.certificate,
    privateKey,
    password,
    refusal: { private_key: text },
  })
  const old = algorithmIdentifier('1.2.840.113549.1.12.1.3', sequence(salt, ENDLESS))
  const des = algorithmIdentifier('1.2.840.113549.1.5.10', sequence(salt, ENDLESS))
  const pbkdf2 = algorithmIdentifier('1.2.840.113549.1.5.12', sequence(salt, ENDLESS))
  return [
    {
      name: 'PKCS#12 with ten million iterations of its MAC',
      certificate: macOf(10_000_000),
      password,
      refusal: { certificate: /too many iterations/ },
    },
    upload('PBKDF2 with two thousand million iterations', pbes2Key(pbkdf2), /too many iterations/),
    upload(
      'PKCS#12 encryption with as many',
      toBuffer(sequence(old, octetString(Buffer.alloc(32)))),
      /too many iterations/,
    ),
    upload(
      'PBES1 with as many',
      toBuffer(sequence(des, octetString(Buffer.alloc(32)))),
      /too many iterations/,
    ),
    upload('scrypt with a huge N', pbes2Key(scrypt(ENDLESS, integer(8), integer(1))), /too many iterations/),
    upload(
      'scrypt with much memory',
      pbes2Key(scrypt(integer(2), integer(600_000), integer(1))),
      /too much memory/,
    ),
    upload(
      'scrypt with an N that is none',
      pbes2Key(scrypt(integer(1023), integer(8), integer(1))),
      /scrypt/,
    ),
  ]
}

/** A PKCS#12 file of nothing, with a MAC. */
function macOf(iterations: number): Buffer {
  const content = sequence(
    objectIdentifier('1.2.840.113549.1.7.1'),
    tagged(0, octetString(toBuffer(sequence()))),
  )
  const digest = sequence(algorithmIdentifier('2.16.840.1.101.3.4.2.1', NULL), octetString(Buffer.alloc(32)))
  const mac = sequence(digest, octetString(Buffer.alloc(8)), integer(iterations))
  return toBuffer(sequence(integer(3), content, mac))
}

function certificates(): HostileUpload[] {
  const crafted = (
    name: string,
    raw: NonNullable<CertificateWishes['raw']>,
    text: RegExp,
  ): HostileUpload => ({
    name,
    certificate: makeCertificate({ commonName: 'crafted', keyType: 'ec', key, raw }).certificate,
    refusal: { certificate: text },
  })
  const utc = (text: string): Part => element(0x17, Buffer.from(text))
  const generalized = (text: string): Part => element(0x18, Buffer.from(text))
  const bytes = (tag: number, ...octets: number[]): Buffer =>
    toBuffer(sequence(setOf(sequence(objectIdentifier('2.5.4.3'), element(tag, Buffer.from(octets))))))
  const wide = extension('1.2.3.4', false, octetString(Buffer.alloc(200 * 1024)))
  return [
    crafted('a NUL in the subject', { subject: nameOf('good.example\0.evil.example') }, /NUL/),
    crafted('half a character in the subject', { subject: bytes(0x1e, 0xd8, 0x00, 0x00, 0x41) }, /damaged/),
    crafted('a subject that is no UTF-8', { subject: bytes(0x0c, 0xff, 0xfe) }, /damaged/),
    crafted(
      'the year 0',
      { validity: sequence(generalized('00000101000000Z'), utc('300101000000Z')) },
      /1900/,
    ),
    crafted(
      'the 30th of February',
      { validity: sequence(utc('200101000000Z'), utc('300230000000Z')) },
      /date/,
    ),
    crafted('a validity that is no date', { validity: sequence(utc('hello'), utc('world')) }, /damaged|date/),
    crafted(
      'a validity that ends before it begins',
      { validity: sequence(utc('300101000000Z'), utc('200101000000Z')) },
      /ends before it begins/,
    ),
    crafted(
      'a serial number of 60,000 bytes',
      { serialNumber: integer(randomBytes(60_000)) },
      /serial number/,
    ),
    crafted('an extension of 200 KiB', { extensions: [wide] }, /larger than 128 KiB/),
    crafted('an RSA key of 16,384 bits', { publicKeyInfo: rsaKeyInfo(16_384) }, /16384 bits/),
    crafted('an RSA key of 800,000 bits', { publicKeyInfo: rsaKeyInfo(800_000) }, /800000 bits/),
    crafted('a huge public exponent', { publicKeyInfo: rsaKeyInfo(4096, randomBytes(512)) }, /exponent/),
    {
      name: 'a private RSA key of 16,384 bits',
      certificate: Buffer.from(pemOf('RSA PRIVATE KEY', rsaPrivateKey(16_384))),
      refusal: { certificate: /private key in the file cannot be used: .*16384 bits/ },
    },
    {
      name: 'a private key with an exponent of 100,000 bits',
      certificate: rsaPrivateKey(2048, 100_000),
      refusal: { certificate: /cannot be used/ },
    },
  ]
}

/** A number of so many bits, odd as a modulus is. */
function odd(bits: number): Part {
  const octets = randomBytes(bits / 8)
  octets[0] = (octets[0] ?? 0) | 0x80
  octets[octets.length - 1] = (octets.at(-1) ?? 0) | 1
  return integer(octets)
}

function rsaKeyInfo(bits: number, exponent: Buffer = Buffer.from([1, 0, 1])): Buffer {
  const algorithm = algorithmIdentifier('1.2.840.113549.1.1.1', NULL)
  return toBuffer(sequence(algorithm, bitString(sequence(odd(bits), integer(exponent)))))
}

/** PKCS#1, with numbers that fit nothing. */
function rsaPrivateKey(bits: number, exponentBits = bits): Buffer {
  const halves = Array.from({ length: 5 }, () => odd(bits / 2))
  return toBuffer(sequence(integer(0), odd(bits), integer(65_537), odd(exponentBits), ...halves))
}
