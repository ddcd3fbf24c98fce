/**
 * Credit: how far a source may be ahead of a target. Counting alone; the ports are elsewhere (announcer.ts, listener.ts).
 *
 * Both ends count the same deliveries: what a source has outstanding is what its target owes it, plus what is on its
 * way between them. A target repays what it was announced and never more, so the counts cannot drift apart: work
 * that ended elsewhere (on another node, or by an operator) is repaid when the target finds its queue empty.
 */

/** The source's side of one channel. */
export class CreditWindow {
  readonly limit: number
  #outstanding = 0

  constructor(limit: number) {
    if (!Number.isSafeInteger(limit) || limit < 1) throw new RangeError('A credit window must be at least 1')
    this.limit = limit
  }

  /** 0 to `limit`. */
  get outstanding(): number {
    return this.#outstanding
  }

  /** Takes up to `wanted`; the answer is how much was left to take. */
  take(wanted: number): number {
    const taken = Math.min(wanted, this.limit - this.#outstanding)
    this.#outstanding += taken
    return taken
  }

  giveBack(count: number): void {
    this.#outstanding = Math.max(0, this.#outstanding - count)
  }
}

/** The target's side: what it owes to each source, to be repaid in the order of the announcements. */
export class Debts<Source> {
  /** Neighbours are of different sources, and each is at least 1. */
  readonly #queue: { readonly source: Source; count: number }[] = []
  #total = 0

  get total(): number {
    return this.#total
  }

  owe(source: Source, count: number): void {
    const last = this.#queue.at(-1)
    if (last?.source === source) last.count += count
    else this.#queue.push({ source, count })
    this.#total += count
  }

  /** Repays `count` deliveries, or all that is owed when that is less. The answer says how many to whom. */
  repay(count: number): Map<Source, number> {
    const shares = new Map<Source, number>()
    let left = Math.min(count, this.#total)
    this.#total -= left
    while (left > 0) {
      const oldest = this.#queue[0]
      if (oldest === undefined) break
      const share = Math.min(left, oldest.count)
      shares.set(oldest.source, (shares.get(oldest.source) ?? 0) + share)
      oldest.count -= share
      left -= share
      if (oldest.count === 0) this.#queue.shift()
    }
    return shares
  }

  /** The source is gone: nothing is owed to it any more. */
  forget(source: Source): void {
    const kept = this.#queue.filter((debt) => debt.source !== source)
    this.#queue.length = 0
    this.#total = 0
    for (const { source: other, count } of kept) this.owe(other, count)
  }
}
