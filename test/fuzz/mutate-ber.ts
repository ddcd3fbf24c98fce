import type { Dice } from './dice.ts'
import { mutateBytes } from './mutate-bytes.ts'

/** An element that was taken apart; one that is not to be understood is a leaf of bytes. */
interface Node {
  tag: number
  children: Node[] | null
  bytes: Buffer
  /** How its length is written. */
  form: 'definite' | 'indefinite' | 'long' | 'too long' | 'too short' | 'huge'
}

const MAX_DEPTH = 12
const DEEP = 40
const MANY = 300
const TAGS = [
  0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x17, 0x24, 0x30, 0x31, 0x80, 0x81, 0xa0, 0xa1, 0xa2, 0x1f, 0x00,
]

/** Takes BER apart, changes its structure in one place, and puts it together with lengths that fit, or lie. */
export function mutateBer(bytes: Buffer, dice: Dice): Buffer {
  const roots = parse(bytes, 0)
  if (roots === null || roots.length === 0) return mutateBytes(bytes, dice)
  const nodes: { node: Node; siblings: Node[] }[] = []
  collect(roots, nodes)
  const { node, siblings } = dice.one(nodes)
  const at = siblings.indexOf(node)
  switch (dice.below(10)) {
    case 0:
      node.tag = dice.once(2) ? dice.one(TAGS) : dice.below(256)
      break
    case 1:
      node.form = dice.one(['indefinite', 'long', 'too long', 'too short', 'huge'])
      break
    case 2:
      siblings.splice(at, 1)
      break
    case 3:
      siblings.splice(at, 0, ...Array.from({ length: 1 + dice.below(3) }, () => node))
      break
    case 4:
      siblings.splice(at, 1, dice.one(nodes).node)
      break
    case 5: {
      const other = dice.below(siblings.length)
      siblings[at] = siblings[other] as Node
      siblings[other] = node
      break
    }
    case 6:
      siblings[at] = nested(node, 1 + dice.below(DEEP), dice.one([0x30, 0x24, 0xa0]))
      break
    case 7:
      siblings.splice(at, 0, ...Array.from({ length: dice.below(MANY) }, () => node))
      break
    case 8:
      if (node.children === null) inPieces(node, 1 + dice.below(20))
      else node.form = 'indefinite'
      break
    default:
      if (node.children === null) node.bytes = mutateBytes(node.bytes, dice)
      else node.children = []
  }
  return Buffer.concat(roots.map((root) => format(root, 0)))
}

function parse(bytes: Buffer, depth: number): Node[] | null {
  const nodes: Node[] = []
  let at = 0
  while (at < bytes.length) {
    const [tag = 0, first = 0] = [bytes[at], bytes[at + 1]]
    let start = at + 2
    let length = first
    if (first > 0x80 && first <= 0x84 && start + first - 0x80 <= bytes.length) {
      length = bytes.readUIntBE(start, first - 0x80)
      start += first - 0x80
    }
    if (first === 0x80 || start + length > bytes.length || at + 2 > bytes.length) return null
    const contents = bytes.subarray(start, start + length)
    const constructed = (tag & 0x20) !== 0 && depth < MAX_DEPTH
    nodes.push({
      tag,
      children: constructed ? parse(contents, depth + 1) : null,
      bytes: contents,
      form: 'definite',
    })
    at = start + length
  }
  return nodes
}

function collect(siblings: Node[], into: { node: Node; siblings: Node[] }[]): void {
  for (const node of siblings) {
    into.push({ node, siblings })
    if (node.children !== null) collect(node.children, into)
  }
}

function nested(node: Node, depth: number, tag: number): Node {
  let outer = node
  for (let level = 0; level < depth; level += 1) {
    outer = { tag, children: [outer], bytes: Buffer.of(), form: 'indefinite' }
  }
  return outer
}

/** A primitive element as a constructed one of small parts. */
function inPieces(node: Node, pieceBytes: number): void {
  const pieces: Node[] = []
  for (let at = 0; at < node.bytes.length && pieces.length < MANY; at += pieceBytes) {
    const bytes = node.bytes.subarray(at, at + pieceBytes)
    pieces.push({ tag: 0x04, children: null, bytes, form: 'definite' })
  }
  node.tag |= 0x20
  node.children = pieces
  node.form = 'indefinite'
}

function format({ tag, children, bytes, form }: Node, depth: number): Buffer {
  const contents =
    children === null || depth > DEEP + MAX_DEPTH
      ? bytes
      : Buffer.concat(children.map((child) => format(child, depth + 1)))
  const { length } = contents
  switch (form) {
    case 'indefinite':
      return Buffer.concat([Buffer.of(tag, 0x80), contents, Buffer.of(0, 0)])
    case 'long':
      return Buffer.concat([Buffer.of(tag, 0x84), lengthOctets(length), contents])
    case 'too long':
      return Buffer.concat([Buffer.of(tag, 0x84), lengthOctets(length + 1 + (length >> 1)), contents])
    case 'too short':
      return Buffer.concat([Buffer.of(tag, 0x84), lengthOctets(length >> 1), contents])
    case 'huge':
      return Buffer.concat([Buffer.of(tag, 0x86, 0xff, 0xff), lengthOctets(0xffffffff), contents])
    case 'definite':
      return length < 0x80
        ? Buffer.concat([Buffer.of(tag, length), contents])
        : Buffer.concat([Buffer.of(tag, 0x84), lengthOctets(length), contents])
  }
}

function lengthOctets(length: number): Buffer {
  const octets = Buffer.alloc(4)
  octets.writeUInt32BE(length)
  return octets
}
