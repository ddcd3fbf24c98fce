import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createTestDatabase } from '../test/support/database.ts'
import { Waybill } from '../test/support/waybill.ts'
import { costsOf, credentialsOf, excessOf, type Credential, type Round } from './authentication-cost.ts'
import { load, type LoadFigures } from './http-load.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'
import { median } from './statistics.ts'
import { usageOf } from './usage.ts'

const BARE = fileURLToPath(new URL('./bare-fastify.ts', import.meta.url))
/** So many organizations lie in the table before anything is measured. */
const RECORDS = 200
const ROUNDS = 9
/** The first rounds warm both up: the API has more code to compile. */
const WARM_ROUNDS = 5
/** Rounds that compare credentials: many short ones, as their differences are small. */
const CREDENTIAL_ROUNDS = 25

interface Server {
  readonly pid: number
  readonly port: number
  readonly prefix: string
}

interface Run extends LoadFigures {
  readonly cpuSeconds: number
}

interface Operation {
  readonly name: string
  readonly status: number
  /** Of a server whose paths begin with `prefix`, with more header lines. */
  readonly request: (prefix: string, headers: string) => (index: number) => string
}

/** Names of created records are never used twice, whoever creates them. */
let created = 0

const OPERATIONS: readonly Operation[] = [
  {
    name: 'get',
    status: 200,
    request: (prefix, headers) => (index) =>
      `GET ${prefix}/organizations/${(index % RECORDS) + 1} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`,
  },
  {
    name: 'list',
    status: 200,
    request: (prefix, headers) => () =>
      `GET ${prefix}/organizations HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`,
  },
  {
    name: 'create',
    status: 201,
    request: (prefix, headers) => () => {
      const body = `{"name":"created-${(created += 1)}","display_name":"Created by the benchmark"}`
      return `POST ${prefix}/organizations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n${headers}\r\n${body}`
    },
  },
]

/**
 * Requests a second that the API answers, and that Fastify alone answers with one statement a request: reading one
 * organization by its id, reading the first page of their list, and creating one. Both are processes of their own on
 * the same database, and are measured in turn; each figure is the median of the rounds. The CPU is that of the server's
 * process alone, and does not depend on what else the machine has to do. Then the API answers the same requests without
 * credential, with an API token and with a JWT, in turn; the run fails when a credential costs more than its limit.
 */
export async function apiThroughput(options: ScenarioOptions): Promise<Figures> {
  const { messages: requests = 4_000, concurrency: connections = 20 } = options
  await using running = new AsyncDisposableStack()
  const teardown = (action: () => Promise<void>): void => running.defer(action)
  const database = await createTestDatabase({ teardown })
  await database.pool.query(
    `insert into organization (name, display_name)
     select 'organization-' || n, 'Organization ' || n from generate_series(1, ${RECORDS}) n`,
  )
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true }))
  const waybill = await Waybill.start({ directory, env: { DATABASE_URL: database.url } })
  running.defer(async () => void (await waybill.stop()))
  const bare = await startBare(database.url, running)
  const api = { pid: waybill.pid, port: Number(new URL(waybill.url).port), prefix: '/api/v1' }

  const figures: Record<string, number> = {}
  for (const operation of OPERATIONS) {
    const runs: Record<'api' | 'bare', Run[]> = { api: [], bare: [] }
    for (let round = 0; round < WARM_ROUNDS + ROUNDS; round += 1) {
      for (const [name, server] of [
        ['api', api],
        ['bare', bare],
      ] as const) {
        const run = await measured(server, operation, { connections, requests })
        if (round >= WARM_ROUNDS) runs[name].push(run)
      }
    }
    const { name } = operation
    const perSecond = (of: readonly Run[]): number => median(of.map((run) => run.perSecond))
    const cpuMicroseconds = (of: readonly Run[]): number =>
      median(of.map((run) => (run.cpuSeconds * 1e6) / requests))
    figures[`${name}_api_per_second`] = perSecond(runs.api)
    figures[`${name}_bare_per_second`] = perSecond(runs.bare)
    figures[`${name}_share`] = perSecond(runs.api) / perSecond(runs.bare)
    figures[`${name}_api_cpu_us`] = cpuMicroseconds(runs.api)
    figures[`${name}_bare_cpu_us`] = cpuMicroseconds(runs.bare)
    figures[`${name}_api_p50_ms`] = median(runs.api.map(({ p50Ms }) => p50Ms))
    figures[`${name}_api_p99_ms`] = median(runs.api.map(({ p99Ms }) => p99Ms))
  }
  const headers = await credentialsOf(waybill, { teardown })
  const amount = { connections, requests: Math.ceil(requests / 4) }
  for (const operation of OPERATIONS) {
    const rounds: Round[] = []
    for (let round = 0; round <= CREDENTIAL_ROUNDS; round += 1) {
      const runs = await withEach(api, operation, { ...amount, headers, first: round })
      // The first one verifies the credentials.
      if (round > 0) rounds.push(runs)
    }
    Object.assign(figures, costsOf(operation.name, rounds))
  }
  return {
    parameters: { requests_a_round: requests, rounds: ROUNDS, connections },
    figures,
    failures: excessOf(figures),
  }
}

interface Amount {
  readonly connections: number
  readonly requests: number
}

/** The same requests with each credential; which comes first changes from round to round. */
async function withEach(
  api: Server,
  operation: Operation,
  asked: Amount & { readonly headers: Readonly<Record<Credential, string>>; readonly first: number },
): Promise<Round> {
  const { headers, first, ...amount } = asked
  const names: readonly Credential[] = ['none', 'api_token', 'jwt']
  const runs: Partial<Record<Credential, Run>> = {}
  for (let turn = 0; turn < names.length; turn += 1) {
    const name = names[(first + turn) % names.length] ?? 'none'
    runs[name] = await measured(api, operation, amount, headers[name])
  }
  return runs as Round
}

async function measured(
  { pid, port, prefix }: Server,
  { request, status }: Operation,
  amount: Amount,
  headers = '',
): Promise<Run> {
  const before = await usageOf(pid)
  const figures = await load({ port, status, request: request(prefix, headers), ...amount })
  const after = await usageOf(pid)
  return { ...figures, cpuSeconds: after.cpuSeconds - before.cpuSeconds }
}

async function startBare(databaseUrl: string, running: AsyncDisposableStack): Promise<Server> {
  const child = spawn(process.execPath, [BARE], {
    env: { PATH: process.env['PATH'], DATABASE_URL: databaseUrl },
    stdio: ['ignore', 'pipe', 'inherit'],
    // As Waybill is started: the kernel shares a busy processor among sessions first.
    detached: true,
  })
  running.defer(async () => {
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
  })
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  return { pid: child.pid ?? 0, port: Number(/:(\d+)$/.exec(line)?.[1]), prefix: '' }
}
