import t, { type Test } from 'tap'
import { systemClock } from '../../../runtime/clock.ts'
import type { ActorContext } from '../../../runtime/thread/actor.ts'
import { Consumer, DELIVERED } from '../../../storage/exchange/consumer.ts'
import { query, transaction } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { until } from '../../support/processes.ts'
import { newMessage, routesTo } from './fixture.ts'

/** A consumer for the target `a`, which delivers whatever it claims. `announce` tells it that deliveries wait. */
async function begin(t: Test, { pool, log }: TestDatabase) {
  let announce = (): void => undefined
  let drained = 0
  const context: ActorContext = {
    type: 'test',
    name: 'a',
    node: 'node',
    settings: {},
    process: {},
    log,
    clock: systemClock,
    signal: new AbortController().signal,
    announce: () => Promise.resolve(),
    onAnnouncement: (handler) => (announce = () => handler(1)),
    settled: () => undefined,
    drained: () => (drained += 1),
    fail: () => undefined,
  }
  const consumer = await Consumer.start({
    context,
    pool,
    nodeId: 'node',
    concurrency: 5,
    retry: { retry_initial_seconds: 1, retry_max_seconds: 1, retry_max_attempts: 5 },
    deliver: () => Promise.resolve(DELIVERED),
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
