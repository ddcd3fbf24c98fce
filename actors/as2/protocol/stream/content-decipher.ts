/** Encrypted content (RFC 5652 §6.1, RFC 5084) deciphered as it comes; whether it was genuine is known at its end. */
import { createDecipheriv } from 'node:crypto'
import { CIPHERS } from '../algorithms.ts'
import { isTagAsStated, isTagLength, paddingOf } from '../cms/content-encryption.ts'
import type { Authentication, ContentAlgorithm } from '../cms/content-encryption.ts'

/** Deciphers one content; what does not fit is told only by `judge`, behind all that follows the content. */
export interface ContentDecipher {
  readonly plain: (ciphertext: AsyncIterable<Buffer>) => AsyncGenerator<Buffer>
  /**
   * Whether the content is genuine, by the fields behind it if there are any. `unknown`: that takes another reading, with
   * the authentication known from its start.
   */
  readonly judge: (authentication: Authentication | null) => boolean | 'unknown'
}

export interface Ciphering extends ContentAlgorithm {
  readonly key: Buffer
  /** Where the authentication of GCM stands: in fields behind the content, or at the end of the ciphertext. */
  readonly tagPlace: 'field' | 'appended'
  /** Of an earlier reading of the same content. */
  readonly known: Authentication | null
}

export function contentDecipher(ciphering: Ciphering): ContentDecipher {
  if (CIPHERS[ciphering.algorithm].mode === 'CBC') return new CbcDecipher(ciphering)
  return ciphering.tagPlace === 'field' ? new GcmDecipher(ciphering) : new AppendedTagDecipher(ciphering)
}

/** A wrong padding counts as a byte long: no branch depends on what it is (see `paddingOf`). */
class CbcDecipher implements ContentDecipher {
  readonly #ciphering: Ciphering
  #intact = false

  constructor(ciphering: Ciphering) {
    this.#ciphering = ciphering
  }

  async *plain(ciphertext: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const { algorithm, iv, key } = this.#ciphering
    const { node, ivBytes: blockBytes } = CIPHERS[algorithm]
    const decipher = createDecipheriv(node, key, iv)
    decipher.setAutoPadding(false)
    const held = new HeldEnd(blockBytes)
    let cipherBytes = 0
    let plainBytes = 0
    for await (const chunk of ciphertext) {
      cipherBytes += chunk.length
      const plain = decipher.update(chunk)
      plainBytes += plain.length
      const ready = held.add(plain)
      if (ready.length > 0) yield ready
    }
    const end = held.bytes
    const { intact, bytes } = paddingOf(end, blockBytes)
    // Blocks that are cut short can be told from the ciphertext.
    this.#intact = intact && cipherBytes === plainBytes
    if (end.length > bytes) yield end.subarray(0, end.length - bytes)
  }

  judge(): boolean {
    return this.#intact
  }
}

/** With the tag in a field of its own, which is known behind the content only. */
class GcmDecipher implements ContentDecipher {
  readonly #ciphering: Ciphering
  readonly #tag: TagCheck

  constructor(ciphering: Ciphering) {
    this.#ciphering = ciphering
    const { known, tagBytes } = ciphering
    this.#tag = new TagCheck(ciphering, known?.mac.length ?? tagBytes, known?.attributes ?? null)
  }

  async *plain(ciphertext: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of ciphertext) yield this.#tag.update(chunk)
  }

  judge(authentication: Authentication | null): boolean | 'unknown' {
    const { known, tagBytes } = this.#ciphering
    if (authentication === null || !isTagLength(authentication.mac.length)) return false
    if (!isTagAsStated(this.#ciphering, authentication.mac)) return false
    const isForeseen = authentication.mac.length === tagBytes && authentication.attributes === null
    return known === null && !isForeseen ? 'unknown' : this.#tag.fits(authentication.mac)
  }
}

/** EnvelopedData with GCM, as some products make it, ends in the tag. */
class AppendedTagDecipher implements ContentDecipher {
  readonly #ciphering: Ciphering
  #intact = false

  constructor(ciphering: Ciphering) {
    this.#ciphering = ciphering
  }

  async *plain(ciphertext: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const { tagBytes } = this.#ciphering
    const held = new HeldEnd(tagBytes)
    const tag = new TagCheck(this.#ciphering, tagBytes, null)
    for await (const chunk of ciphertext) {
      const ready = held.add(chunk)
      if (ready.length > 0) yield tag.update(ready)
    }
    const end = held.bytes
    const split = Math.max(0, end.length - tagBytes)
    if (split > 0) yield tag.update(end.subarray(0, split))
    const mac = end.subarray(split)
    // A ciphertext that is shorter than a tag may be a shorter tag of nothing.
    const check = mac.length === tagBytes ? tag : new TagCheck(this.#ciphering, mac.length, null)
    this.#intact = check.fits(mac) && isTagAsStated(this.#ciphering, mac)
  }

  judge(): boolean {
    return this.#intact
  }
}

/** Deciphers with GCM. The cipher must know the length of the tag before the content. */
class TagCheck {
  readonly #decipher: {
    readonly update: (bytes: Buffer) => Buffer
    readonly fits: (mac: Buffer) => boolean
  } | null

  constructor({ algorithm, iv, key }: Ciphering, tagBytes: number, attributes: Buffer | null) {
    const facts = CIPHERS[algorithm]
    if (facts.mode !== 'GCM' || !isTagLength(tagBytes)) {
      this.#decipher = null
      return
    }
    const decipher = createDecipheriv(facts.node, key, iv, { authTagLength: tagBytes })
    if (attributes !== null) decipher.setAAD(attributes)
    this.#decipher = {
      update: (bytes) => decipher.update(bytes),
      fits: (mac) => {
        decipher.setAuthTag(mac)
        try {
          decipher.final()
          return true
        } catch {
          return false
        }
      },
    }
  }

  update(bytes: Buffer): Buffer {
    return this.#decipher?.update(bytes) ?? bytes
  }

  fits(mac: Buffer): boolean {
    return this.#decipher?.fits(mac) ?? false
  }
}

/** Holds back the end of what comes, at least so many bytes of it, and copies only where chunks are smaller. */
class HeldEnd {
  readonly #leastBytes: number
  #held: Buffer = Buffer.alloc(0)

  constructor(leastBytes: number) {
    this.#leastBytes = leastBytes
  }

  /** What is not the end for sure. */
  add(chunk: Buffer): Buffer {
    if (chunk.length >= this.#leastBytes) {
      const ready = this.#held
      this.#held = chunk
      return ready
    }
    const all = Buffer.concat([this.#held, chunk])
    const split = Math.max(0, all.length - this.#leastBytes)
    this.#held = all.subarray(split)
    return all.subarray(0, split)
  }

  get bytes(): Buffer {
    return this.#held
  }
}
