import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { randomOf } from '../support/seeded-random.ts'
import { nothingLeft } from './support/crash-cases.ts'
import { holds } from './support/invariants.ts'
import { Lane } from './support/lane.ts'

/** The same seed kills after the same times; what is under way at those moments is the machine's affair. */
const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))
const KILLS = 200
const LANES = 2
/** So often everything may come to its end, and is looked at. */
const KILLS_BETWEEN_LOOKS = 20
/** Of the time that a process takes for all that is handed in at its start. */
const [SHORTEST_LIFE, LONGEST_LIFE] = [0.3, 0.9]

t.setTimeout(2_700_000)
t.jobs = LANES
t.comment(`SEED=${SEED}`)

for (let number = 1; number <= LANES; number += 1) {
  t.test(`${KILLS / LANES} kills at random moments lose and double nothing, lane ${number}`, (t) =>
    // In one of them all receipts travel by themselves.
    killAtRandom(t, { random: randomOf(SEED + number), asynchronous: number === LANES }),
  )
}

interface Course {
  readonly random: () => number
  readonly asynchronous: boolean
}

async function killAtRandom(t: Test, { random, asynchronous }: Course): Promise<void> {
  const lane = await Lane.open(t, { asynchronous })
  const verified = new Set<string>()
  await holds(t, lane, 'without a kill', verified)
  await lane.start()
  lane.load.feed()
  await lane.untilQuiet()
  const wholeMs = performance.now() - lane.startedMs
  await lane.kill()
  while (lane.kills < KILLS / LANES) {
    await lane.start()
    lane.load.feed()
    await sleep(wholeMs * (SHORTEST_LIFE + random() * (LONGEST_LIFE - SHORTEST_LIFE)))
    await lane.kill()
    if (lane.kills % KILLS_BETWEEN_LOOKS !== 0) continue
    await lane.start()
    await lane.untilQuiet()
    await holds(t, lane, `after ${lane.kills} kills`, verified)
    await lane.kill()
  }
  await lane.start()
  await lane.untilQuiet()
  await holds(t, lane, `after all ${lane.kills} kills`, verified)
  await nothingLeft(t, lane)
  t.comment(`${lane.load.items.length} messages, ${lane.kills} kills, ${lane.failedStarts} failed starts`)
  t.comment(`the longest recovery took ${Math.round(lane.longestRecoveryMs)} ms`)
}
