import type { Dice } from './dice.ts'

/** Larger ones would test the machine and not the parsers. */
export const MAX_BYTES = 128 * 1024

const INTERESTING = [
  0x00, 0x01, 0x04, 0x06, 0x0a, 0x0d, 0x20, 0x24, 0x2d, 0x30, 0x3d, 0x7f, 0x80, 0x84, 0xa0, 0xff,
]

/** Changes that know nothing of what the bytes mean. */
export function mutateBytes(bytes: Buffer, dice: Dice): Buffer {
  const at = dice.below(bytes.length)
  const length = dice.below(Math.min(64, bytes.length - at) + 1)
  switch (dice.below(7)) {
    case 0: {
      const changed = Buffer.from(bytes)
      for (let times = dice.below(4); times >= 0; times -= 1) {
        changed[dice.below(bytes.length)] = dice.once(2) ? dice.below(256) : dice.one(INTERESTING)
      }
      return changed
    }
    case 1:
      return bytes.subarray(0, at)
    case 2:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)])
    case 3:
      return Buffer.concat([bytes.subarray(0, at), randomBytes(dice, length), bytes.subarray(at)])
    case 4: {
      const part = bytes.subarray(at, at + length)
      const copies = Array.from({ length: 1 + dice.below(200) }, () => part)
      return Buffer.concat([bytes.subarray(0, at), ...copies, bytes.subarray(at)])
    }
    case 5: {
      const other = dice.below(bytes.length)
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(other, other + length), bytes.subarray(at)])
    }
    default:
      return Buffer.concat([bytes, randomBytes(dice, length)])
  }
}

function randomBytes(dice: Dice, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => (dice.once(2) ? dice.below(256) : dice.one(INTERESTING))))
}
