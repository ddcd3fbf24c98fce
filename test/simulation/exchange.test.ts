import fc from 'fast-check'
import t, { type Test } from 'tap'
import { createTestDatabase } from '../support/database.ts'
import { operations } from './operations.ts'
import { World } from './world.ts'

/**
 * The states and statements of the exchange, driven by random operations, lost connections and moves of the clock. What
 * fails is printed as the shortest list of operations that still fails, with its seed, which plays the same again:
 *
 *     SIMULATION_SEED=… SIMULATION_PATH=… node test/simulation/exchange.test.ts
 *
 * SIMULATION_RUNS makes more of them than the gate does.
 */
const RUNS = Number(process.env['SIMULATION_RUNS'] ?? 2_000)
const SEED = Number(process.env['SIMULATION_SEED'] ?? 20_260_701)
const PATH = process.env['SIMULATION_PATH']
/** Each in a database of its own, at the same time. */
const PARALLEL = PATH === undefined ? 3 : 1

async function simulate(t: Test, seed: number, numRuns: number): Promise<void> {
  const { pool } = await createTestDatabase(t)
  await World.prepare(pool)
  let number = 0
  const run = fc.asyncProperty(operations, async (list) => {
    const world = await World.begin(pool, (number += 1))
    for (const operation of list) await world.perform(operation)
    await world.finish()
  })
  await fc.assert(run, { seed, numRuns, endOnFailure: false, ...(PATH === undefined ? {} : { path: PATH }) })
}

t.setTimeout(1_800_000)

t.test('whatever happens in whatever order, states, status, history and counts agree', async (t) => {
  const share = Math.ceil(RUNS / PARALLEL)
  const seeds = Array.from({ length: PARALLEL }, (_, index) => SEED + index)
  await Promise.all(seeds.map((seed) => simulate(t, seed, share)))
  t.pass(`${share * PARALLEL} runs from the seeds ${seeds.join(', ')}`)
})
