import { setTimeout as sleep } from 'node:timers/promises'
import { watchMemory } from './memory.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'
import { checked, KINDS, NOTIFIER, type Kind, type StormLog } from './storm-checks.ts'
import { figuresOf, limits, type Storm, type StormsByKind } from './storm-figures.ts'
import { PARTNERS, prepare, startSite, waiting, type Site } from './storm-site.ts'
import { usageOf } from './usage.ts'

const ROUNDS = 5
/** The rounds that are compared have a part of the storm each: many of them tell more than a few that are long. */
const PART = 0.4
/** So many good messages a failing one are ready, so that they never run out. */
const READY = 3
/** Of the webhook: so that the storm has each. */
const PHASE_MS_A_FAILURE = 0.6
const LOOK_MS = 100
/** Looking takes time of the processors that the storm needs. */
const LOOK_AT_MEMORY_MS = 250
const LIMIT_MS = 10 * 60_000

/**
 * Deliveries that fail for good at partners who are down, while others succeed as fast as they can: without a notifier,
 * with one that has a cooldown, and with one that groups. The webhook answers slowly, then with 500, then well. What it
 * got, and what the log says, is held against the settings. First a whole storm of each, which warms up, too; then rounds
 * of shorter ones in turn, of which the throughput is compared.
 */
export async function alertStorm(options: ScenarioOptions): Promise<Figures> {
  const { messages = 10_000 } = options
  await using running = new AsyncDisposableStack()
  const site = await startSite(running)
  const failures: string[] = []
  const storms = (count: number, kinds: readonly Kind[]) => inTurn(site, { count, kinds, failures })
  const whole = await storms(messages, KINDS)
  const rounds: StormsByKind[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    // Begun with another each time: what is left of one storm is not always the burden of the same.
    const first = round % KINDS.length
    rounds.push(await storms(Math.ceil(messages * PART), [...KINDS.slice(first), ...KINDS.slice(0, first)]))
  }
  const figures = figuresOf(whole, rounds)
  return {
    parameters: { failing_deliveries: messages, partners: PARTNERS, rounds: ROUNDS, part: PART },
    figures,
    failures: [...new Set([...failures, ...limits(figures)])],
  }
}

interface Turn {
  readonly count: number
  readonly kinds: readonly Kind[]
  /** What was not as it must be is added. */
  readonly failures: string[]
}

/** A storm of each kind, in this order. */
async function inTurn(site: Site, { count, kinds, failures }: Turn): Promise<StormsByKind> {
  const results = new Map<Kind, Storm>()
  for (const kind of kinds) {
    const result = await storm(site, kind, count)
    results.set(kind, result)
    failures.push(...(await holds(site, kind, count, result)))
  }
  return results
}

/** One storm, until the log has told all of it. */
async function storm(site: Site, kind: Kind, messages: number): Promise<Storm> {
  const { waybill, server, database, well, down, webhook } = site
  await database.query('truncate alert, notification')
  await prepare(site, 'well', messages * READY)
  await prepare(site, 'down', messages)
  for (const { reset } of [well, down]) reset()
  webhook.reset(messages * PHASE_MS_A_FAILURE)
  const settings = NOTIFIER[kind]
  const notifier = { name: 'operators', url: webhook.url, ...settings }
  if (settings !== null) await waybill.request('POST', '/plugins/configs?type=notification-webhook', notifier)
  if (settings !== null) await waybill.request('POST', '/services/notification-webhook/operators/start')
  await waybill.request('POST', '/services/http-poster/well/start')
  await until(() => well.answered() > messages / 100)
  const memory = watchMemory(waybill.pid, LOOK_AT_MEMORY_MS)
  const cpu = async () => (await usageOf(waybill.pid)).cpuSeconds + (await usageOf(server.pid)).cpuSeconds
  const before = { ms: performance.now(), cpu: await cpu(), answered: well.answered() }
  await waybill.request('POST', '/services/http-poster/down/start')
  await until(() => down.answered() >= messages)
  const seconds = (performance.now() - before.ms) / 1000
  const succeeded = well.answered() - before.answered
  const cpuSeconds = (await cpu()) - before.cpu
  for (const name of ['well', 'down']) await waybill.request('POST', `/services/http-poster/${name}/stop`)
  await until(async () => (await waiting(site)) === 0)
  const first = webhook.posts[0]?.atMs
  return {
    seconds,
    rate: succeeded / seconds,
    cpuMs: (cpuSeconds * 1000) / (succeeded + messages),
    peakBytes: await memory.peakBytes(),
    firstAlertMs: first === undefined ? null : first - (down.firstMs() ?? 0),
    posts: webhook.posts.length,
  }
}

/** What is not as the notifier's settings have it; the notifier is gone then. */
async function holds(site: Site, kind: Kind, messages: number, { seconds }: Storm): Promise<string[]> {
  const { database, waybill, webhook } = site
  const { rows: outcomes } = await database.query<StormLog['outcomes'][number]>(
    'select outcome, count(*)::integer, count(distinct dedupe_key)::integer as keys from notification group by 1',
  )
  const { rows: alerts } = await database.query<StormLog['alerts'][number]>(
    'select code, count(*)::integer, count(distinct subject_id)::integer as subjects from alert group by 1',
  )
  if (kind !== 'without') await waybill.request('DELETE', '/plugins/configs/notification-webhook/operators')
  const facts = { kind, messages, partners: PARTNERS, seconds, posts: webhook.posts }
  return checked(facts, { outcomes, alerts })
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + LIMIT_MS
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error('It took too long')
    await sleep(LOOK_MS)
  }
}
