import { join } from 'node:path'
import t from 'tap'
import { createTestDatabase } from '../support/database.ts'
import { drop, INSTANCES, servicesOf, setUpSite, startPartner, startSite } from '../support/exchange-site.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

const MESSAGES = 5_000
const NODES = ['one', 'two', 'three']
const CONCURRENCY = 10
const LIMIT_MS = 400_000

t.setTimeout(600_000)

t.test(
  'three nodes deliver each message, each node is killed once, and a repeat has the same id',
  async (t) => {
    const { url, pool } = await createTestDatabase(t)
    const directory = await temporaryDirectory(t)
    const partner = await startPartner(t)
    const running = new Map<string, Waybill>()
    const start = async (node: string): Promise<Waybill> => {
      const waybill = await Waybill.start({
        directory,
        env: {
          DATABASE_URL: url,
          DATA_DIRECTORY: join(directory, `data-${node}`),
          SECRET_KEY: 'the key of all the nodes',
          WAYBILL_NODE: node,
          LOG_LEVEL: 'error',
        },
      })
      running.set(node, waybill)
      return waybill
    }
    t.teardown(async () => {
      for (const waybill of running.values()) await waybill.kill()
    })

    const first = await start('one')
    const site = { directory, postUrl: partner.url, concurrency: CONCURRENCY }
    const { outbox } = await setUpSite(first, site)
    const work = INSTANCES.filter((instance) => !instance.startsWith('as2-receiver'))
    await startSite(first, work)
    // Those that start now have everything configured, and so start it themselves.
    for (const node of NODES.slice(1)) await start(node)
    const runsAll = async (waybill: Waybill) =>
      (await servicesOf(waybill)).filter(({ status }) => status === 'running').length >= work.length
    for (const waybill of running.values()) await until(() => runsAll(waybill), LIMIT_MS)

    const dropping = (async () => {
      for (let index = 0; index < MESSAGES; index += 1) await drop(outbox, `${index}.txt`, `message ${index}`)
    })()

    let repeatsAllowed = 0
    for (const [turn, node] of NODES.entries()) {
      const reached = ((turn + 1) * MESSAGES) / (NODES.length + 1)
      await until(() => partner.distinct.size >= reached, LIMIT_MS)
      await running.get(node)?.kill()
      // What it had in hand may have been answered by the partner and not yet settled.
      repeatsAllowed += CONCURRENCY
      await start(node)
    }
    await dropping
    const unsettled = async () =>
      (
        await pool.query<{ count: number }>(
          `select count(*)::int as count from message where stage <> 'settled'`,
        )
      ).rows[0]?.count
    await until(async () => partner.distinct.size >= MESSAGES && (await unsettled()) === 0, LIMIT_MS)

    t.equal(partner.distinct.size, MESSAGES, 'each is delivered')
    const repeats = partner.received.length - MESSAGES
    t.comment(`${repeats} repeats`)
    t.ok(repeats <= repeatsAllowed, `${repeats} repeats, no more than were in hand at a kill`)
    const idsOf = Map.groupBy(partner.received, ({ body }) => body)
    const changed = [...idsOf.values()].filter((times) => new Set(times.map(({ id }) => id)).size > 1)
    t.same(changed, [], 'every repeat carries the same id')
    const states = await pool.query('select state, count(*)::int as count from delivery group by state')
    t.same(states.rows, [{ state: 'delivered', count: MESSAGES }], 'one message a file, and each is settled')
    for (const [node, waybill] of running) t.ok(waybill.running, `node ${node} runs`)
  },
)
