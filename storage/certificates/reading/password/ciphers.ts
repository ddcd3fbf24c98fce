import { createDecipheriv } from 'node:crypto'
import forge from 'node-forge'
import { UnusableError, WrongPasswordError } from '../refusal.ts'

/** The ciphers of encrypted keys and PKCS#12 files, old ones included: files live longer than algorithms. */

export type CipherName =
  | 'aes-128-cbc'
  | 'aes-192-cbc'
  | 'aes-256-cbc'
  | 'camellia-128-cbc'
  | 'camellia-192-cbc'
  | 'camellia-256-cbc'
  | '3des-cbc'
  | 'des-cbc'
  | 'rc2-cbc'
  | 'rc4'

export interface Sealed {
  readonly cipher: CipherName
  readonly key: Buffer
  readonly iv: Buffer
}

/** Throws a WrongPasswordError when the content has not the padding that it must have. */
export function decipher(sealed: Sealed, content: Buffer): Buffer {
  const own = OWN[sealed.cipher]
  return own === undefined ? run(sealed.cipher, sealed, content) : own(sealed, content)
}

/** What OpenSSL 3 has only in its legacy provider, or under another name. */
const OWN: Partial<Record<CipherName, (sealed: Sealed, content: Buffer) => Buffer>> = {
  'rc2-cbc': runRc2,
  rc4: ({ key }, content) => runRc4(key, content),
  // Two-key triple DES repeats the first key.
  '3des-cbc': ({ key, iv }, content) => {
    const three = key.length === 16 ? Buffer.concat([key, key.subarray(0, 8)]) : key
    return run('des-ede3-cbc', { key: three, iv }, content)
  },
  // With three equal keys triple DES is single DES.
  'des-cbc': ({ key, iv }, content) =>
    run('des-ede3-cbc', { key: Buffer.concat([key, key, key]), iv }, content),
}

const IV_BYTES: Partial<Record<CipherName, number>> = { '3des-cbc': 8, 'des-cbc': 8, 'rc2-cbc': 8, rc4: 0 }

/** The length of the initialization vector that a cipher takes. */
export function ivBytesOf(cipher: CipherName): number {
  return IV_BYTES[cipher] ?? 16
}

function run(name: string, { key, iv }: Pick<Sealed, 'key' | 'iv'>, content: Buffer): Buffer {
  let cipher
  try {
    cipher = createDecipheriv(name, key, iv)
  } catch {
    throw new UnusableError('its encryption has a key or initialization vector of a wrong length')
  }
  try {
    return Buffer.concat([cipher.update(content), cipher.final()])
  } catch (thrown) {
    throw new WrongPasswordError('The content does not open', { cause: thrown })
  }
}

/** node-forge has RC2, and the content is small. */
function runRc2({ key, iv }: Sealed, content: Buffer): Buffer {
  const cipher = forge.rc2.createDecryptionCipher(key.toString('binary'), key.length * 8)
  cipher.start(iv.toString('binary'))
  cipher.update(forge.util.createBuffer(content.toString('binary')))
  if (!cipher.finish()) throw new WrongPasswordError('The content does not open')
  return Buffer.from(cipher.output.getBytes(), 'binary')
}

/** The stream cipher that older programs could choose. */
function runRc4(key: Buffer, content: Buffer): Buffer {
  const state = Uint8Array.from({ length: 256 }, (_, at) => at)
  const at = (index: number): number => state[index & 0xff] ?? 0
  const swap = (one: number, other: number): void => {
    const kept = at(one)
    state[one & 0xff] = at(other)
    state[other & 0xff] = kept
  }
  let mixed = 0
  for (let index = 0; index < 256; index += 1) {
    mixed = (mixed + at(index) + (key[index % key.length] ?? 0)) & 0xff
    swap(index, mixed)
  }
  mixed = 0
  return Buffer.from(
    content.map((octet, index) => {
      mixed = (mixed + at(index + 1)) & 0xff
      swap(index + 1, mixed)
      return octet ^ at(at(index + 1) + at(mixed))
    }),
  )
}
