/**
 * The octets of encrypted and compressed content with the structure around them: as DER where they are few, as BER of
 * indefinite lengths with a constructed OCTET STRING where they are many. Both ways of making a message share this.
 */
import { TAG } from '../asn1/tag.ts'
import { closeIndefinite, openIndefinite, wrapDefinite } from '../asn1/wrapping.ts'
import type { Wrapping } from '../asn1/wrapping.ts'
import { headerOf, toBuffer } from '../asn1/writer.ts'
import { CHUNK_BYTES } from '../stream/limits.ts'
import { release } from '../stream/release.ts'

/** Wraps octets that are all there. */
export function wrapOctets(wrapping: Wrapping, octets: readonly Buffer[], limitBytes: number): Buffer {
  const length = octets.reduce((sum, each) => sum + each.length, 0)
  if (length <= limitBytes) return toBuffer(wrapDefinite(wrapping, octets))
  const pieces = new Pieces()
  const body = octets.flatMap((each) => [...pieces.take(each)])
  return Buffer.concat([openIndefinite(wrapping), ...body, pieces.end(), closeIndefinite(wrapping)])
}

/**
 * Wraps octets as they come, holding no more than the limit; they are given away to it. `ended` gives the wrapping again
 * when all have come: what stands after them may depend on them.
 */
export async function* wrapOctetStream(
  wrapping: Wrapping,
  octets: AsyncIterable<Buffer>,
  limitBytes: number,
  ended: () => Wrapping = () => wrapping,
): AsyncGenerator<Buffer> {
  let held: Buffer[] = []
  let heldBytes = 0
  let pieces: Pieces | null = null
  for await (const each of octets) {
    held.push(each)
    heldBytes += each.length
    if (pieces === null) {
      if (heldBytes <= limitBytes) continue
      pieces = new Pieces()
      yield openIndefinite(wrapping)
    }
    for (const taken of held) {
      yield* pieces.take(taken)
      release(taken)
    }
    held = []
  }
  if (pieces === null) yield toBuffer(wrapDefinite(ended(), held))
  else yield Buffer.concat([pieces.end(), closeIndefinite(ended())])
}

/** The header of a piece of full length. */
const FULL = headerOf(TAG.OCTET_STRING, CHUNK_BYTES)
/** So many pieces are handed on together, as far as there are so many. */
const TOGETHER = 2

/** Copies octets, however they come, into OCTET STRINGs of one length. */
class Pieces {
  readonly #rest = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  #restBytes = 0;

  /** The pieces that are complete with these octets, which may be used otherwise then. */
  *take(octets: Buffer): Generator<Buffer> {
    let at = 0
    for (;;) {
      const complete = Math.floor((this.#restBytes + octets.length - at) / CHUNK_BYTES)
      if (complete === 0) break
      const pieces = Math.min(complete, TOGETHER)
      const encoded = Buffer.allocUnsafeSlow(pieces * (FULL.length + CHUNK_BYTES))
      let position = 0
      for (let piece = 0; piece < pieces; piece += 1) {
        position += FULL.copy(encoded, position)
        position += this.#rest.copy(encoded, position, 0, this.#restBytes)
        const end = at + CHUNK_BYTES - this.#restBytes
        position += octets.copy(encoded, position, at, end)
        this.#restBytes = 0
        at = end
      }
      yield encoded
    }
    this.#restBytes += octets.copy(this.#rest, this.#restBytes, at)
  }

  /** The last piece, which is shorter; nothing when the octets ended with a full one. */
  end(): Buffer {
    const rest = this.#rest.subarray(0, this.#restBytes)
    return rest.length === 0 ? rest : Buffer.concat([headerOf(TAG.OCTET_STRING, rest.length), rest])
  }
}
