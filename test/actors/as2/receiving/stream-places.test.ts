import t from 'tap'
import { StreamPlaces } from '../../../../actors/as2/receiving/stream-places.ts'

const RATE = 64 * 1024

t.test('a sender is asked for more while nobody else of its pair would find a place', async (t) => {
  const places = new StreamPlaces()
  const first = places.take('a')
  for (let each = 1; each < 12; each += 1) {
    t.equal(first?.leastBytesPerSecond(), null)
    t.ok(places.take('a'))
  }
  t.equal(first?.leastBytesPerSecond(), RATE)
  t.equal(places.take('a'), null)

  const other = places.take('b')
  t.equal(other?.leastBytesPerSecond(), null, 'the other pair has room')
  for (let each = 1; each < 4; each += 1) t.ok(places.take('b'))
  t.equal(places.take('c'), null, 'there are no more in all')
  t.equal(other?.leastBytesPerSecond(), RATE)
  first?.release()
  t.equal(other?.leastBytesPerSecond(), null)
  t.ok(places.take('c'))
})

t.test('strangers have places of their own', async (t) => {
  const places = new StreamPlaces()
  const taken = Array.from({ length: 4 }, () => places.take(null))
  t.ok(taken.every((place) => place !== null))
  t.equal(taken[0]?.leastBytesPerSecond(), RATE)
  t.equal(places.take(null), null)
  t.equal(places.take('a')?.leastBytesPerSecond(), null)
  taken[0]?.release()
  t.ok(places.take(null))
})
