import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { reasonOf } from '../../runtime/errors.ts'
import { StorageError } from '../storage-error.ts'

const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
/** NIST SP 800-38D §8.2.2: a random nonce of 96 bits serves 2^32 values of one key. */
const NONCE_BYTES = 12
const TAG_BYTES = 16
const KEY_ID_BYTES = 4
const SEALED = /^v1:([0-9a-f]{8}):([A-Za-z0-9+/]+={0,2})$/

/**
 * Seals values at rest: `v1:<key id>:<base64 of nonce, ciphertext, tag>`, AES-256-GCM. The context (such as
 * `certificate 7 private_key`) is authenticated with the value: one that was moved to another record or column
 * does not open. A thread makes its own box from the same key text.
 */
export class SecretBox {
  readonly #key: Buffer
  /** Names the key without telling it: 8 hex digits. */
  readonly keyId: string

  constructor(key: string) {
    this.#key = derive(key, 'waybill secret box v1', KEY_BYTES)
    this.keyId = derive(key, 'waybill secret box key id', KEY_ID_BYTES).toString('hex')
  }

  seal(secret: string | Uint8Array, context: string): string {
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv(CIPHER, this.#key, nonce, { authTagLength: TAG_BYTES })
    cipher.setAAD(this.#authenticated(context))
    const bytes = typeof secret === 'string' ? Buffer.from(secret, 'utf8') : secret
    const sealed = Buffer.concat([nonce, cipher.update(bytes), cipher.final(), cipher.getAuthTag()])
    return `v1:${this.keyId}:${sealed.toString('base64')}`
  }

  /** Throws a StorageError when the value was sealed with another key or for another context, or is damaged. */
  open(sealed: string, context: string): Buffer {
    const [, keyId, text] = SEALED.exec(sealed) ?? []
    if (keyId === undefined || text === undefined) throw new StorageError('This is not a sealed value')
    if (keyId !== this.keyId) {
      throw new StorageError(
        `The value was sealed with the secret key ${keyId}, the present one is ${this.keyId}`,
      )
    }
    const bytes = Buffer.from(text, 'base64')
    if (bytes.length < NONCE_BYTES + TAG_BYTES) throw new StorageError('The sealed value is damaged')
    const nonce = bytes.subarray(0, NONCE_BYTES)
    const decipher = createDecipheriv(CIPHER, this.#key, nonce, { authTagLength: TAG_BYTES })
    decipher.setAAD(this.#authenticated(context))
    decipher.setAuthTag(bytes.subarray(bytes.length - TAG_BYTES))
    try {
      const secret = decipher.update(bytes.subarray(NONCE_BYTES, bytes.length - TAG_BYTES))
      return Buffer.concat([secret, decipher.final()])
    } catch (thrown) {
      throw new StorageError(`The sealed value is damaged or belongs elsewhere: ${reasonOf(thrown)}`, {
        cause: thrown,
      })
    }
  }

  openText(sealed: string, context: string): string {
    return this.open(sealed, context).toString('utf8')
  }

  #authenticated(context: string): Buffer {
    return Buffer.from(`v1:${this.keyId}:${context}`, 'utf8')
  }
}

/** RFC 5869. The key is a text of high entropy, so that no slow derivation is needed. */
function derive(key: string, purpose: string, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', key, '', purpose, bytes))
}
