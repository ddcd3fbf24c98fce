import { createHmac, timingSafeEqual } from 'node:crypto'
import {
  childAt,
  childrenOf,
  contextTag,
  DerError,
  integerOf,
  objectIdentifierOf,
  octetsOf,
  readDer,
  TAG,
  type DerElement,
} from './der.ts'
import { algorithmOf, parametersOf, type Algorithm } from './password/algorithm.ts'
import { decrypt, decryptPrivateKey, type Opening } from './password/decrypt.ts'
import { derivedKey, hmacOf } from './password/derivation.ts'
import { firstThatOpens, pkcs12Key, pkcs12Passwords, PURPOSE } from './password/pkcs12-derivation.ts'
import { UnusableError, WrongPasswordError } from './refusal.ts'

/** A PKCS#12 file (RFC 7292) with a password: its certificates and private keys. */
export interface Pkcs12Content {
  /** DER of X.509. */
  readonly certificates: readonly Buffer[]
  /** DER of PKCS#8, not encrypted. */
  readonly privateKeys: readonly Buffer[]
  /** Bags that are neither, such as revocation lists and secrets. */
  readonly others: number
}

const DATA = '1.2.840.113549.1.7.1'
const ENCRYPTED_DATA = '1.2.840.113549.1.7.6'
const X509_CERTIFICATE = '1.2.840.113549.1.9.22.1'
const PBMAC1 = '1.2.840.113549.1.5.14'

const BAG = {
  key: '1.2.840.113549.1.12.10.1.1',
  shroudedKey: '1.2.840.113549.1.12.10.1.2',
  certificate: '1.2.840.113549.1.12.10.1.3',
  safeContents: '1.2.840.113549.1.12.10.1.6',
} as const

const MAC_DIGESTS: Readonly<Record<string, { readonly name: string; readonly bytes: number }>> = {
  '1.3.14.3.2.26': { name: 'sha1', bytes: 20 },
  '2.16.840.1.101.3.4.2.4': { name: 'sha224', bytes: 28 },
  '2.16.840.1.101.3.4.2.1': { name: 'sha256', bytes: 32 },
  '2.16.840.1.101.3.4.2.2': { name: 'sha384', bytes: 48 },
  '2.16.840.1.101.3.4.2.3': { name: 'sha512', bytes: 64 },
}

const DEEPEST_BAG = 4
const MOST_ITEMS = 1000

/** Throws a WrongPasswordError, an UnusableError or a DerError. */
export function readPkcs12(file: DerElement, opening: Opening): Pkcs12Content {
  const [, authSafe, macData] = childrenOf(file)
  if (authSafe === undefined) throw new DerError('an element is missing')
  const safe = contentOf(authSafe)
  if (safe.type !== DATA) throw new UnusableError(PUBLIC_KEY_MODE)
  const authenticated = octetsOf(safe.content)
  if (macData !== undefined) checkMac(macData, authenticated, opening)

  const found = { certificates: [] as Buffer[], privateKeys: [] as Buffer[], others: 0 }
  for (const part of childrenOf(readDer(authenticated))) {
    collectBags(openPart(part, opening), { found, opening }, 0)
  }
  return found
}

const PUBLIC_KEY_MODE = 'it is protected with a public key, not with a password'

interface Collection {
  readonly found: { readonly certificates: Buffer[]; readonly privateKeys: Buffer[]; others: number }
  readonly opening: Opening
}

function contentOf(element: DerElement): { readonly type: string; readonly content: DerElement } {
  const parts = childrenOf(element)
  const explicit = childAt(parts, 1, contextTag(0))
  return { type: objectIdentifierOf(childAt(parts, 0)), content: childAt(childrenOf(explicit), 0) }
}

function openPart(part: DerElement, opening: Opening): DerElement {
  const { type, content } = contentOf(part)
  if (type === DATA) return readDer(octetsOf(content))
  if (type !== ENCRYPTED_DATA) throw new UnusableError(PUBLIC_KEY_MODE)
  const sealed = childrenOf(childAt(childrenOf(content), 1, TAG.sequence))
  return decrypt(algorithmOf(childAt(sealed, 1)), octetsOf(childAt(sealed, 2)), opening)
}

function collectBags(contents: DerElement, collection: Collection, depth: number): void {
  if (depth > DEEPEST_BAG) throw new DerError('The bags are nested too deeply')
  const { found, opening } = collection
  for (const bag of childrenOf(contents)) {
    const parts = childrenOf(bag)
    const value = childAt(childrenOf(childAt(parts, 1, contextTag(0))), 0)
    switch (objectIdentifierOf(childAt(parts, 0))) {
      case BAG.key:
        found.privateKeys.push(value.raw)
        break
      case BAG.shroudedKey:
        found.privateKeys.push(decryptPrivateKey(value, opening))
        break
      case BAG.certificate: {
        const { type, content } = contentOf(value)
        if (type === X509_CERTIFICATE) found.certificates.push(octetsOf(content))
        else found.others += 1
        break
      }
      case BAG.safeContents:
        collectBags(value, collection, depth + 1)
        break
      default:
        found.others += 1
    }
    if (found.certificates.length + found.privateKeys.length + found.others > MOST_ITEMS) {
      throw new DerError('The file holds too many certificates and keys')
    }
  }
}

/** RFC 7292 §4: the MAC tells a wrong password and a damaged file before anything is read. */
function checkMac(macData: DerElement, content: Buffer, opening: Opening): void {
  const parts = childrenOf(macData)
  const digestInfo = childrenOf(childAt(parts, 0, TAG.sequence))
  const algorithm = algorithmOf(childAt(digestInfo, 0))
  const expected = octetsOf(childAt(digestInfo, 1))
  if (algorithm.oid === PBMAC1) {
    refuseOtherMac(pbmac1(algorithm, content, opening), expected)
    return
  }
  const digest = MAC_DIGESTS[algorithm.oid]
  if (digest === undefined) throw new UnusableError(`its MAC ${algorithm.oid} is not supported`)
  const salt = octetsOf(childAt(parts, 1))
  const iterations = parts[2] === undefined ? 1 : integerOf(parts[2])
  firstThatOpens(pkcs12Passwords(opening.password), (secret) => {
    const derivation = {
      digest: digest.name,
      secret,
      salt,
      iterations,
      purpose: PURPOSE.mac,
      bytes: digest.bytes,
    }
    const key = pkcs12Key(derivation, opening.budget)
    refuseOtherMac(createHmac(digest.name, key).update(content).digest(), expected)
  })
}

/** RFC 9579: the key derivation and the HMAC stand in the parameters; salt and iterations beside them do not count. */
function pbmac1(algorithm: Algorithm, content: Buffer, { password, budget }: Opening): Buffer {
  const parts = childrenOf(parametersOf(algorithm))
  const kdf = algorithmOf(childAt(parts, 0))
  const { name } = hmacOf(algorithmOf(childAt(parts, 1)).oid)
  const key = derivedKey({ kdf, password, keyBytes: null }, budget)
  return createHmac(name, key).update(content).digest()
}

function refuseOtherMac(mac: Buffer, expected: Buffer): void {
  if (mac.length !== expected.length || !timingSafeEqual(mac, expected)) {
    throw new WrongPasswordError('The MAC of the file differs')
  }
}
