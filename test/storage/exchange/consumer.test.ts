import t, { type Test } from 'tap'
import { systemClock, type Clock } from '../../../runtime/clock.ts'
import type { ActorContext } from '../../../runtime/thread/actor.ts'
import {
  Consumer,
  DELIVERED,
  type AttemptResult,
  type ConsumerOptions,
} from '../../../storage/exchange/consumer.ts'
import { findMessage } from '../../../storage/exchange/messages.ts'
import { query, transaction } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { claim } from '../../../storage/sql/claim.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { until } from '../../support/processes.ts'
import { claimFor, newMessage, routesTo } from './fixture.ts'

t.setTimeout(300_000)

/** A consumer for the target `a`, which delivers whatever it claims. `announce` tells it that deliveries wait. */
async function begin(
  t: Test,
  { pool, log }: TestDatabase,
  changes: Partial<ConsumerOptions> = {},
  clock = systemClock,
) {
  let announce = (): void => undefined
  let drained = 0
  const context: ActorContext = {
    type: 'test',
    name: 'a',
    node: 'node',
    generation: '1',
    settings: {},
    process: { nodeId: 'node', runId: 'run', leaseSeconds: 60 },
    log,
    clock,
    signal: new AbortController().signal,
    announce: () => Promise.resolve(),
    heldBack: () => null,
    tellCondition: () => undefined,
    onAnnouncement: (handler) => (announce = () => handler(1)),
    settled: () => undefined,
    drained: () => (drained += 1),
    fail: () => undefined,
  }
  const consumer = Consumer.start({
    context,
    pool,
    concurrency: 5,
    retry: { retry_initial_seconds: 1, retry_max_seconds: 1, retry_max_attempts: 5 },
    deliver: () => Promise.resolve(DELIVERED),
    ...changes,
  })
  t.teardown(() => consumer.stop())
  await until(() => drained > 0)
  return { consumer, announce: () => announce() }
}

void t.test('a stop waits for the claim that is under way, and for what it brings', async (t) => {
  const database = await createTestDatabase(t)
  const { pool } = database
  await routesTo(pool, 'a')
  const { consumer, announce } = await begin(t, database)
  const messages = [newMessage(), newMessage()]
  await accept(pool, messages)
  let stopped = false
  const stopping = await transaction(pool, async (client) => {
    await client.query('lock table delivery in access exclusive mode')
    announce()
    await until(async () => {
      const waiting = await query(
        pool,
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      return waiting.length === 1
    })
    const stop = consumer.stop().then(() => (stopped = true))
    for (let turn = 0; turn < 10; turn += 1) await client.query('select 1')
    t.notOk(stopped, 'the claim is under way')
    return { stop }
  })
  await stopping.stop
  const states = await query<{ state: string }>(pool, 'select state from delivery')
  t.same(
    states.map(({ state }) => state),
    ['delivered', 'delivered'],
  )
})

t.test('a stop that takes too long puts back what is in hand, at once and without blame', async (t) => {
  const database = await createTestDatabase(t)
  const { pool } = database
  await routesTo(pool, 'a')
  const message = newMessage()
  const begun = Promise.withResolvers<void>()
  const answer = Promise.withResolvers<AttemptResult>()
  const late = Promise.withResolvers<void>()
  // The grace of a stop is over when the test says so.
  const clock: Clock = { ...systemClock, sleep: () => late.promise }
  const deliver = (): Promise<AttemptResult> => {
    begun.resolve()
    return answer.promise
  }
  const { consumer, announce } = await begin(t, database, { deliver }, clock)
  await accept(pool, [message])
  announce()
  await begun.promise
  const stopping = consumer.stop()
  t.match(await findMessage(pool, message.id), { deliveries: [{ state: 'delivering' }] })
  late.resolve()
  await stopping
  const released = await findMessage(pool, message.id)
  t.match(released, { status: 'InProgress', deliveries: [{ state: 'queued', last_error: /was stopped/ }] })
  const [row] = await query<{ cut_offs: number }>(pool, 'select cut_offs from delivery')
  t.equal(row?.cut_offs, 0)

  answer.resolve(DELIVERED)
  t.equal((await claim(pool, claimFor('a'))).length, 1, 'another may take it')
})

t.test(
  'what an instance held when it broke down is worked on by the next one, with the same ids',
  async (t) => {
    const database = await createTestDatabase(t)
    const { pool } = database
    await routesTo(pool, 'a')
    const message = newMessage()
    await accept(pool, [message])
    const owner = 'node/a/run/broken-down'
    t.equal((await claim(pool, { ...claimFor('a'), owner })).length, 1)
    const stranger = newMessage()
    await accept(pool, [stranger])
    t.equal((await claim(pool, { ...claimFor('a'), owner: 'another-node/a/run/1' })).length, 1)
    await begin(t, database)
    await until(async () => (await findMessage(pool, message.id))?.status === 'Delivered')
    t.match(await findMessage(pool, message.id), { deliveries: [{ attempts: 2, last_error: null }] })
    t.match(await findMessage(pool, stranger.id), { deliveries: [{ state: 'delivering', attempts: 1 }] })
  },
)
