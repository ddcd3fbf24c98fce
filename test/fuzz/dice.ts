import { randomOf } from '../support/seeded-random.ts'

/** Chance that is the same for the same seed and number. */
export class Dice {
  readonly #random: () => number

  constructor(seed: number, execution: number) {
    this.#random = randomOf(Math.imul(seed, 0x9e3779b1) ^ Math.imul(execution + 1, 0x85ebca6b))
  }

  /** A whole number below `end`; 0 where there is none. */
  below(end: number): number {
    return Math.floor(this.#random() * end)
  }

  one<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)] as Value
  }

  /** True once in so many. */
  once(inSoMany: number): boolean {
    return this.below(inSoMany) === 0
  }
}
