import t from 'tap'
import { ExpandingPlaces } from '../../../../actors/as2/receiving/expanding-places.ts'

/** Work that is under way until it is told to end. */
class Works {
  readonly #places = new ExpandingPlaces()
  readonly #ends = new Map<string, () => void>()
  readonly begun: string[] = []

  /** `name` begins with the letter of its pair. */
  begin(name: string): Promise<'done' | 'no room'> {
    return this.#places.within(name.charAt(0), async () => {
      this.begun.push(name)
      await new Promise<void>((resolve) => this.#ends.set(name, resolve))
    })
  }

  async end(name: string): Promise<void> {
    this.#ends.get(name)?.()
    // What follows of it is done before the next turn of the loop.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

t.test('one pair leaves places to the others, and they are called in their order', async (t) => {
  const works = new Works()
  const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'c2', 'b2'].map((name) => works.begin(name))
  t.same(works.begun, ['a1', 'a2', 'b1', 'c1'])
  await works.end('b1')
  t.same(works.begun.slice(4), ['c2'], 'two of the first pair are at work')
  await works.end('a2')
  t.same(works.begun.slice(5), ['a3'])
  await works.end('c1')
  t.same(works.begun.slice(6), ['b2'])
  for (const name of ['a1', 'c2', 'b2', 'a3', 'a4']) await works.end(name)
  t.same(works.begun.slice(7), ['a4'])
  t.same(new Set(await Promise.all(all)), new Set(['done']))
})

t.test('the line is bounded, for one pair more than for all', async (t) => {
  const works = new Works()
  const waiting = (pair: string, many: number): Promise<string>[] =>
    Array.from({ length: many }, (_, each) => works.begin(`${pair}${each}`))
  void waiting('a', 2 + 24)
  t.equal(await works.begin('a-more'), 'no room')
  void waiting('b', 2 + 24)
  void waiting('c', 16)
  t.equal(works.begun.length, 4)
  t.equal(await works.begin('d'), 'no room')
  await works.end('a0')
  t.same(works.begun.slice(4), ['a2'])
  void works.begin('d')
  t.equal(works.begun.length, 5, 'there is room again')
})

t.test('work that fails gives its place back', async (t) => {
  const places = new ExpandingPlaces()
  const failing = (): Promise<void> => Promise.reject(new Error('the disk is full'))
  for (let each = 0; each < 5; each += 1) await t.rejects(places.within('a', failing), /the disk is full/)
  t.equal(await places.within('a', async () => undefined), 'done')
})
