import { Asn1Error } from './asn1-error.ts'

const MAX_OID_BYTES = 64

/** The contents octets of an OBJECT IDENTIFIER in dotted form (X.690 §8.19). */
export function oidToBytes(dotted: string): Buffer {
  const [first, second, ...rest] = dotted.split('.').map(Number)
  if (first === undefined || second === undefined) throw new Asn1Error(`not an object identifier: ${dotted}`)
  const octets: number[] = []
  for (const arc of [first * 40 + second, ...rest]) {
    const septets = [arc % 128]
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) {
      septets.unshift((left % 128) | 0x80)
    }
    octets.push(...septets)
  }
  return Buffer.from(octets)
}

/** The dotted form of the contents octets of an OBJECT IDENTIFIER. */
export function oidFromBytes(contents: Buffer): string {
  const last = contents.at(-1)
  if (last === undefined || last >= 0x80 || contents.length > MAX_OID_BYTES) {
    throw new Asn1Error('malformed object identifier')
  }
  const arcs: number[] = []
  let arc = 0
  for (const octet of contents) {
    arc = arc * 128 + (octet & 0x7f)
    if (arc > Number.MAX_SAFE_INTEGER) throw new Asn1Error('object identifier out of range')
    if (octet < 0x80) {
      arcs.push(arc)
      arc = 0
    }
  }
  const joined = arcs[0] ?? 0
  const first = Math.min(2, Math.floor(joined / 40))
  return [first, joined - first * 40, ...arcs.slice(1)].join('.')
}
