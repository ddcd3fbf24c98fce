import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Pool } from 'pg'
import { createLog } from '../runtime/log.ts'
import { clockRound } from '../storage/exchange/clock.ts'
import { startEmbedded } from '../storage/postgres/embedded.ts'
import { migrate } from '../storage/postgres/migrate.ts'
import { openPool } from '../storage/postgres/pool.ts'
import { accept } from '../storage/sql/accept.ts'
import { claim } from '../storage/sql/claim.ts'
import { settle } from '../storage/sql/settle.ts'
import { newMessage } from '../test/storage/exchange/fixture.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'
import { median } from './statistics.ts'
import { storeWaiting, TARGET } from './waiting-deliveries.ts'

const WAITING = [1, 100_000, 1_000_000]
/** The queues are measured in turn, so that all have the same share of a machine that others use too. */
const ROUNDS = 30
const WARM_UP = 3
const LEASE_SECONDS = 60
const LEAST_SHARE = 0.8

interface Queue {
  readonly waiting: number
  readonly pool: Pool
  readonly claimsMs: number[]
  readonly settlesMs: number[]
  readonly clockMs: number[]
}

/**
 * Claims and settlements of one delivery each, while so many wait: for each that is settled a new one is accepted, which
 * is not measured. The clock of the exchange runs beside. Commits do not wait for the disk, which would hide what the
 * statements take. Fails when a million that wait cost more than a fifth of the rate.
 */
export async function deliveries(options: ScenarioOptions): Promise<Figures> {
  const { messages: operations = 100 } = options
  const log = createLog('silent')
  await using running = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true }))
  const server = await startEmbedded({ directory, log })
  running.defer(() => server.stop())

  const administration = openPool({ url: server.superuserUrl, size: 1, applicationName: 'bench', log })
  running.defer(() => administration.end())
  const queues: Queue[] = []
  for (const waiting of WAITING) {
    const name = `waiting_${waiting}`
    await administration.query(`create database ${name} owner waybill`)
    await administration.query(`alter database ${name} set synchronous_commit = off`)
    const url = inDatabase(server.url, name)
    await migrate({ url, log })
    await storeWaiting(inDatabase(server.superuserUrl, name), { count: waiting, payloads: false })
    const pool = openPool({ url, size: 2, applicationName: 'bench', log })
    running.defer(() => pool.end())
    queues.push({ waiting, pool, claimsMs: [], settlesMs: [], clockMs: [] })
  }

  for (let round = 0; round < WARM_UP + ROUNDS; round += 1) {
    for (const queue of queues) {
      if (round === WARM_UP) queue.claimsMs.length = queue.settlesMs.length = queue.clockMs.length = 0
      await measure(queue, operations)
    }
  }
  return { parameters: { rounds: ROUNDS, operations_each: operations }, figures: figuresOf(queues) }
}

async function measure({ pool, claimsMs, settlesMs, clockMs }: Queue, operations: number): Promise<void> {
  const begin = performance.now()
  await clockRound({
    pool,
    log: createLog('silent'),
    nodeId: 'bench',
    maxAnnouncements: 20,
    announce: () => undefined,
  })
  clockMs.push(performance.now() - begin)
  for (let count = 0; count < operations; count += 1) {
    await acceptOne(pool)
    const claimed = performance.now()
    const request = { target: TARGET, limit: 1, owner: 'bench', leaseSeconds: LEASE_SECONDS }
    const [delivery] = await claim(pool, request)
    if (delivery === undefined) throw new Error('Nothing was claimed')
    const worked = performance.now()
    const settled = await settle(pool, [
      {
        deliveryId: delivery.id,
        messageId: delivery.message_id,
        fencing: delivery.fencing,
        outcome: { state: 'delivered' },
        protocols: null,
        stage: null,
        line: null,
      },
    ])
    if (settled.size !== 1) throw new Error('The claim was lost')
    claimsMs.push(worked - claimed)
    settlesMs.push(performance.now() - worked)
  }
}

async function acceptOne(pool: Pool): Promise<void> {
  await accept(pool, [newMessage({ source: 'api', byHand: { target: TARGET, sender: 'bench' } })])
}

function figuresOf(queues: readonly Queue[]): Record<string, number> {
  const figures: Record<string, number> = {}
  const rates = queues.map(({ waiting, claimsMs, settlesMs, clockMs }) => {
    const rate = 1000 / (median(claimsMs) + median(settlesMs))
    figures[`per_second_with_${waiting}`] = rate
    figures[`claim_ms_with_${waiting}`] = median(claimsMs)
    figures[`settle_ms_with_${waiting}`] = median(settlesMs)
    figures[`clock_round_ms_with_${waiting}`] = median(clockMs)
    return rate
  })
  const share = (rates.at(-1) ?? 0) / (rates[0] ?? 1)
  figures['share_of_the_rate'] = share
  if (share < LEAST_SHARE)
    throw new Error(`Only ${share} of the rate is left\n${JSON.stringify(figures, null, 2)}`)
  return figures
}

function inDatabase(url: string, name: string): string {
  const changed = new URL(url)
  changed.pathname = `/${name}`
  return changed.href
}
