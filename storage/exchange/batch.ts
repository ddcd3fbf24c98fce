/**
 * Gathers what arrives while a statement is under way and sends it with the next one. A busy caller so pays one round
 * trip and one commit for many records; an idle one waits for nobody.
 */
export class Batch<Item, Result> {
  readonly #run: (items: readonly Item[]) => Promise<readonly Result[]>
  readonly #maxItems: number
  readonly #maxUnderWay: number
  readonly #waiting: Waiting<Item, Result>[] = []
  #underWay = 0

  /** `run` answers one result per item, in their order. */
  constructor(
    run: (items: readonly Item[]) => Promise<readonly Result[]>,
    limits: { readonly maxItems: number; readonly maxUnderWay: number },
  ) {
    this.#run = run
    this.#maxItems = limits.maxItems
    this.#maxUnderWay = limits.maxUnderWay
  }

  add(item: Item): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    this.#waiting.push({ item, resolve, reject })
    if (this.#underWay < this.#maxUnderWay) {
      this.#underWay += 1
      // What the same turn of the event loop still adds travels along.
      setImmediate(() => void this.#drain())
    }
    return promise
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) await this.#send(this.#waiting.splice(0, this.#maxItems))
    this.#underWay -= 1
  }

  async #send(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#run(batch.map(({ item }) => item))
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Result)
    } catch (error) {
      if (batch.length === 1) batch[0]?.reject(error)
      // One record that the database refuses must not fail those that happen to travel with it.
      else for (const single of batch) await this.#send([single])
    }
  }
}

interface Waiting<Item, Result> {
  readonly item: Item
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}
