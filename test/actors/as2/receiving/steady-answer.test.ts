import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { Refusal } from '../../../../actors/as2/protocol/refusal.ts'
import { arrived, steadily } from '../../../../actors/as2/receiving/steady-answer.ts'

const MIB = 1024 * 1024

/** The milliseconds until opening a message of a size ended, with what it threw. */
async function timeOf(sizeBytes: number, thrown: Error, workMs = 0): Promise<number> {
  const start = performance.now()
  const opening = steadily(arrived(sizeBytes), async () => {
    while (performance.now() - start < workMs);
    throw thrown
  })
  await t.rejects(opening, thrown)
  return performance.now() - start
}

t.test('What cannot be decrypted is refused no sooner than its size allows', async (t) => {
  const refusal = new Refusal('decryption-failed', 'for whatever reason')
  for (let repeat = 0; repeat < 20; repeat++) {
    t.ok((await timeOf(1_000, refusal)) >= 10, 'at once')
    t.ok((await timeOf(1_000, refusal, 5)) >= 10, 'after some work')
    t.ok((await timeOf(1_000, refusal, 15)) >= 15, 'after more than that')
    t.ok((await timeOf(MIB, refusal)) >= 34, 'of a large message')
  }
})

t.test('What comes in while it is opened is refused so long after its last bytes', async (t) => {
  const refusal = new Refusal('decryption-failed', 'for whatever reason')
  const arrival = arrived(0)
  const opening = steadily(arrival, async () => {
    await delay(100)
    arrival.lastMs = performance.now()
    arrival.sizeBytes = 2 * MIB
    throw refusal
  })
  await t.rejects(opening, refusal)
  t.ok(performance.now() - arrival.lastMs >= 10 + 2 * 24)
})

t.test('and where they came at once, twice as long after its first ones', async (t) => {
  const refusal = new Refusal('decryption-failed', 'for whatever reason')
  const arrival = arrived(0)
  const opening = steadily(arrival, async () => {
    arrival.lastMs = performance.now()
    arrival.sizeBytes = 4 * MIB
    throw refusal
  })
  await t.rejects(opening, refusal)
  t.ok(performance.now() - arrival.firstMs >= 2 * 4 * 24)
})

t.test('Anything else comes as it comes', async (t) => {
  t.equal(await steadily(arrived(1_000), () => Promise.resolve('opened')), 'opened')
  await t.rejects(
    steadily(arrived(1_000), () => Promise.reject(new Refusal('authentication-failed', 'a stranger'))),
    { name: 'Refusal', modifier: 'authentication-failed' },
  )
  await t.rejects(
    steadily(arrived(1_000), () => Promise.reject(new Error('of ours'))),
    { name: 'Error', message: 'of ours' },
  )
})
