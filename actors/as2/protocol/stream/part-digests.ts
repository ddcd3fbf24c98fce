/** Digests of a signed part in the forms in which its signer may have seen it (see multipart-signed.ts). */
import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { DIGESTS } from '../algorithms.ts'
import type { SigningDigest } from '../algorithms.ts'
import { toCrlf } from '../mime.ts'

const LF = 0x0a
const CR = 0x0d

/** One digest of one form of the part. */
interface FormDigest {
  readonly head: (bytes: Buffer) => void
  readonly body: (bytes: Buffer) => void
  readonly hash: Hash
}

export class PartDigests {
  readonly #digests: ReadonlyMap<SigningDigest, readonly FormDigest[]>

  private constructor(digests: ReadonlyMap<SigningDigest, readonly FormDigest[]>) {
    this.#digests = digests
  }

  /** Of the bytes as received, by several algorithms. */
  static received(algorithms: Iterable<SigningDigest>): PartDigests {
    return new PartDigests(new Map([...algorithms].map((name) => [name, [asReceived(name)]])))
  }

  /** As received, with CRLF throughout, with CRLF in the headers alone. */
  static allForms(name: SigningDigest): PartDigests {
    return new PartDigests(new Map([[name, [asReceived(name), canonical(name), canonicalHeaders(name)]]]))
  }

  /** Takes the header block with its blank line, before the body. */
  head(bytes: Buffer): void {
    for (const forms of this.#digests.values()) for (const form of forms) form.head(bytes)
  }

  body(bytes: Buffer): void {
    for (const forms of this.#digests.values()) for (const form of forms) form.body(bytes)
  }

  /** The digest of each form; null for an algorithm that is not computed. To be called once, behind the last byte. */
  of(algorithm: SigningDigest): Buffer[] | null {
    return this.#digests.get(algorithm)?.map(({ hash }) => hash.digest()) ?? null
  }
}

function asReceived(name: SigningDigest): FormDigest {
  const hash = createHash(DIGESTS[name].node)
  const update = (bytes: Buffer): void => void hash.update(bytes)
  return { hash, head: update, body: update }
}

function canonicalHeaders(name: SigningDigest): FormDigest {
  const hash = createHash(DIGESTS[name].node)
  return {
    hash,
    head: (bytes) => void hash.update(toCrlf(bytes)),
    body: (bytes) => void hash.update(bytes),
  }
}

function canonical(name: SigningDigest): FormDigest {
  const hash = createHash(DIGESTS[name].node)
  let afterCr = false
  const update = (bytes: Buffer): void => {
    // The line break may lie across the border of two chunks.
    const isRest = afterCr && bytes[0] === LF
    if (bytes.length > 0) afterCr = bytes.at(-1) === CR
    if (isRest) hash.update(bytes.subarray(0, 1))
    hash.update(toCrlf(isRest ? bytes.subarray(1) : bytes))
  }
  return { hash, head: update, body: update }
}
