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
import {
  algorithmOf,
  decrypt,
  decryptPrivateKey,
  deriveKey,
  firstThatOpens,
  pkcs12Key,
  pkcs12Passwords,
  PURPOSE,
  UnsupportedAlgorithmError,
  WrongPasswordError,
  type WorkBudget,
} from './password-encryption.ts'

/** A PKCS#12 file (RFC 7292) with a password: its certificates and private keys. */
export interface Pkcs12Content {
  /** DER of X.509. */
  readonly certificates: readonly Buffer[]
  /** DER of PKCS#8, not encrypted. */
  readonly privateKeys: readonly Buffer[]
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

/** RFC 8018 appendix B.3, as PBMAC1 names its function (RFC 9579). */
const MAC_FUNCTIONS: Readonly<Record<string, string>> = {
  '1.2.840.113549.2.9': 'sha256',
  '1.2.840.113549.2.10': 'sha384',
  '1.2.840.113549.2.11': 'sha512',
}

const DEEPEST_BAG = 4
const MOST_ITEMS = 1000

/** Whether the bytes begin as a PKCS#12 file does: a sequence whose first element is the version 3. */
export function looksLikePkcs12(bytes: Buffer): boolean {
  try {
    const [version, content] = childrenOf(readDer(bytes))
    return version?.tag === TAG.integer && integerOf(version) === 3 && content?.tag === TAG.sequence
  } catch {
    return false
  }
}

/** Throws a WrongPasswordError, an UnsupportedAlgorithmError or a DerError. */
export function readPkcs12(bytes: Buffer, password: string, budget: WorkBudget): Pkcs12Content {
  const [, authSafe, macData] = childrenOf(readDer(bytes))
  if (authSafe === undefined) throw new DerError('An element is missing')
  const safe = contentOf(authSafe)
  if (safe.type !== DATA)
    throw new UnsupportedAlgorithmError('it is protected with a public key, not with a password')
  const authenticated = octetsOf(safe.content)
  if (macData !== undefined) checkMac(macData, authenticated, password, budget)

  const found = { certificates: [] as Buffer[], privateKeys: [] as Buffer[] }
  for (const part of childrenOf(readDer(authenticated))) {
    collectBags(readDer(openPart(part, password, budget)), { found, password, budget }, 0)
  }
  return found
}

interface Collection {
  readonly found: { readonly certificates: Buffer[]; readonly privateKeys: Buffer[] }
  readonly password: string
  readonly budget: WorkBudget
}

function contentOf(element: DerElement): { readonly type: string; readonly content: DerElement } {
  const parts = childrenOf(element)
  const explicit = childAt(parts, 1, contextTag(0))
  return { type: objectIdentifierOf(childAt(parts, 0)), content: childAt(childrenOf(explicit), 0) }
}

function openPart(part: DerElement, password: string, budget: WorkBudget): Buffer {
  const { type, content } = contentOf(part)
  if (type === DATA) return octetsOf(content)
  if (type !== ENCRYPTED_DATA)
    throw new UnsupportedAlgorithmError('it is protected with a public key, not with a password')
  const sealed = childrenOf(childAt(childrenOf(content), 1, TAG.sequence))
  return decrypt(algorithmOf(childAt(sealed, 1)), octetsOf(childAt(sealed, 2)), password, budget)
}

function collectBags(contents: DerElement, collection: Collection, depth: number): void {
  if (depth > DEEPEST_BAG) throw new DerError('The bags are nested too deeply')
  const { found, password, budget } = collection
  for (const bag of childrenOf(contents)) {
    const parts = childrenOf(bag)
    const value = childAt(childrenOf(childAt(parts, 1, contextTag(0))), 0)
    switch (objectIdentifierOf(childAt(parts, 0))) {
      case BAG.key:
        found.privateKeys.push(value.raw)
        break
      case BAG.shroudedKey:
        found.privateKeys.push(decryptPrivateKey(value, password, budget))
        break
      case BAG.certificate: {
        const { type, content } = contentOf(value)
        if (type === X509_CERTIFICATE) found.certificates.push(octetsOf(content))
        break
      }
      case BAG.safeContents:
        collectBags(value, collection, depth + 1)
        break
      // Revocation lists and other secrets do not concern us.
    }
    if (found.certificates.length + found.privateKeys.length > MOST_ITEMS) {
      throw new DerError('The file holds too many certificates and keys')
    }
  }
}

/** RFC 7292 §4: the MAC tells a wrong password and a damaged file before anything is read. */
function checkMac(macData: DerElement, content: Buffer, password: string, budget: WorkBudget): void {
  const parts = childrenOf(macData)
  const digestInfo = childrenOf(childAt(parts, 0, TAG.sequence))
  const algorithm = algorithmOf(childAt(digestInfo, 0))
  const expected = octetsOf(childAt(digestInfo, 1))
  const salt = octetsOf(childAt(parts, 1))
  const iterations = parts[2] === undefined ? 1 : integerOf(parts[2])

  if (algorithm.oid === PBMAC1) {
    const [kdf, mac] = algorithm.parameters === undefined ? [] : childrenOf(algorithm.parameters)
    const digest = mac === undefined ? undefined : MAC_FUNCTIONS[algorithmOf(mac).oid]
    if (kdf === undefined || digest === undefined)
      throw new UnsupportedAlgorithmError('its MAC is not supported')
    const key = deriveKey(algorithmOf(kdf), password, expected.length, budget)
    refuseOtherMac(createHmac(digest, key).update(content).digest(), expected)
    return
  }
  const digest = MAC_DIGESTS[algorithm.oid]
  if (digest === undefined) throw new UnsupportedAlgorithmError(`its MAC ${algorithm.oid} is not supported`)
  firstThatOpens(pkcs12Passwords(password), (secret) => {
    const derivation = {
      digest: digest.name,
      secret,
      salt,
      iterations,
      purpose: PURPOSE.mac,
      bytes: digest.bytes,
    }
    const mac = createHmac(digest.name, pkcs12Key(derivation, budget)).update(content).digest()
    refuseOtherMac(mac, expected)
    return mac
  })
}

function refuseOtherMac(mac: Buffer, expected: Buffer): void {
  if (mac.length !== expected.length || !timingSafeEqual(mac, expected)) {
    throw new WrongPasswordError('The MAC of the file differs')
  }
}
