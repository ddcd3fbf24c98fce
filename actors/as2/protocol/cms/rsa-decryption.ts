/** Decryption with RSA; the default export is what the thread of `rsa-pool.ts` runs. */
import { privateDecrypt } from 'node:crypto'
import type { KeyObject } from 'node:crypto'

/** The key, and the padding as node:crypto names it. */
export interface RsaKey {
  readonly key: KeyObject
  readonly padding: number
  /** Of OAEP. */
  readonly oaepHash?: string
  readonly oaepLabel?: Uint8Array
}

/** Null where the bytes are not what the key and the padding ask for. */
export type RsaDecryption = (rsa: RsaKey, bytes: Uint8Array) => Uint8Array | null | Promise<Uint8Array | null>

export function decryptHere(rsa: RsaKey, bytes: Uint8Array): Uint8Array | null {
  try {
    return privateDecrypt(rsa, bytes)
  } catch {
    return null
  }
}

export interface RsaTask {
  readonly rsa: RsaKey
  readonly bytes: Uint8Array
}

export default function decrypt({ rsa, bytes }: RsaTask): Uint8Array | null {
  return decryptHere(rsa, bytes)
}
