import { createPrivateKey, type KeyObject } from 'node:crypto'
import { childrenOf, integerOf, TAG, type DerElement } from './der.ts'
import { keyFacts } from './facts.ts'
import { decryptPrivateKey, type Opening } from './password/decrypt.ts'
import { UnusableError, WrongPasswordError } from './refusal.ts'

/** Private keys: PKCS#8, encrypted or not, PKCS#1 and SEC1, all as DER. */

export type PrivateKeyFormat = 'pkcs8' | 'encrypted-pkcs8' | 'pkcs1' | 'sec1'

/** An RSA key of 8192 bits has less than 5,000 bytes. */
const LARGEST_KEY_BYTES = 16 * 1024

/** The format by the shape of the outermost sequence; null for what is none of them. */
export function privateKeyFormat(children: readonly DerElement[]): PrivateKeyFormat | null {
  const [first, second, third] = children
  if (first?.tag === TAG.sequence && second?.tag === TAG.octetString && third === undefined) {
    return 'encrypted-pkcs8'
  }
  if (first?.tag !== TAG.integer) return null
  if (second?.tag === TAG.sequence && third?.tag === TAG.octetString) return 'pkcs8'
  if (second?.tag === TAG.octetString && integerOf(first) === 1) return 'sec1'
  return second?.tag === TAG.integer && children.length >= 9 ? 'pkcs1' : null
}

/** Throws a WrongPasswordError, an UnusableError or a DerError. */
export function readPrivateKey(element: DerElement, opening: Opening): KeyObject {
  const format = privateKeyFormat(childrenOf(element))
  if (format === null) throw new UnusableError('it is damaged')
  if (format === 'encrypted-pkcs8') return keyOf(decryptPrivateKey(element, opening), 'pkcs8')
  return keyOf(element.raw, format)
}

/** What came out of an encryption that cannot tell a wrong password: what is no key then did not open. */
export function readDecryptedKey(element: DerElement): KeyObject {
  const format = privateKeyFormat(childrenOf(element))
  if (format === null || format === 'encrypted-pkcs8') throw new WrongPasswordError('The key does not open')
  return keyOf(element.raw, format)
}

function keyOf(der: Buffer, type: 'pkcs8' | 'pkcs1' | 'sec1'): KeyObject {
  if (der.length > LARGEST_KEY_BYTES) throw new UnusableError('it is too large')
  const key = keyOrNull(der, type)
  if (key === null) throw new UnusableError('it is damaged, or of a kind that is not supported')
  const { algorithm, size } = keyFacts(key)
  // Every signature raises to the power of the secret exponent: one that is far longer than the modulus would cost
  // seconds each time. A sound key has about 4.5 times the bytes of its modulus.
  if (algorithm === 'RSA' && der.length > 5 * (size / 8) + 512) {
    throw new UnusableError('its numbers are too large')
  }
  return key
}

function keyOrNull(key: Buffer, type: 'pkcs8' | 'pkcs1' | 'sec1'): KeyObject | null {
  try {
    return createPrivateKey({ key, format: 'der', type })
  } catch {
    return null
  }
}
