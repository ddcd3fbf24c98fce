import { hash } from 'node:crypto'
import { UnusableError, WrongPasswordError } from '../refusal.ts'
import type { DerElement } from '../der.ts'
import { decipher, ivBytesOf, type CipherName } from './ciphers.ts'
import { sequenceIn } from './decrypt.ts'

/** The encryption of older PEM keys, which `DEK-Info` names (RFC 1423), with the key derivation of OpenSSL. */

const CIPHERS: Readonly<Record<string, { readonly name: CipherName; readonly keyBytes: number }>> = {
  'AES-128-CBC': { name: 'aes-128-cbc', keyBytes: 16 },
  'AES-192-CBC': { name: 'aes-192-cbc', keyBytes: 24 },
  'AES-256-CBC': { name: 'aes-256-cbc', keyBytes: 32 },
  'DES-EDE3-CBC': { name: '3des-cbc', keyBytes: 24 },
  'DES-CBC': { name: 'des-cbc', keyBytes: 8 },
}

/** `encryption` is such as `AES-128-CBC,6F1D…`. Throws a WrongPasswordError. */
export function decryptPemKey(encryption: string, sealed: Buffer, password: string): DerElement {
  const [name = '', hex = ''] = encryption.split(',').map((part) => part.trim())
  const cipher = CIPHERS[name.toUpperCase()]
  if (cipher === undefined) throw new UnusableError('its encryption is not supported')
  const iv = Buffer.from(hex, 'hex')
  if (iv.length !== ivBytesOf(cipher.name))
    throw new UnusableError('its encryption has no initialization vector')
  if (password === '') throw new WrongPasswordError('A password is needed')
  const key = openSslKey(password, iv.subarray(0, 8), cipher.keyBytes)
  return sequenceIn(decipher({ cipher: cipher.name, key, iv }, sealed))
}

/** EVP_BytesToKey with MD5 and one round, so that its work needs no bound. */
function openSslKey(password: string, salt: Buffer, bytes: number): Buffer {
  let digested = Buffer.alloc(0)
  let key = Buffer.alloc(0)
  while (key.length < bytes) {
    digested = hash('md5', Buffer.concat([digested, Buffer.from(password, 'utf8'), salt]), 'buffer')
    key = Buffer.concat([key, digested])
  }
  return key.subarray(0, bytes)
}
