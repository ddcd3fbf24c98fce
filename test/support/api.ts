import { z } from 'zod'
import { installedModules } from '../../actors/registry.ts'
import { coreEndpoints } from '../../api/rest/endpoints.ts'
import { API_PREFIX, buildServer, listen } from '../../api/rest/server.ts'
import { systemClock } from '../../runtime/clock.ts'
import type { Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { httpHeaders } from '../../runtime/endpoint/http-headers.ts'
import { createLog, type Log } from '../../runtime/log.ts'
import type { PluginType } from '../../runtime/module.ts'
import { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import { targetUrl } from '../../runtime/endpoint/target-url.ts'
import { ENTITIES } from '../../storage/records/entities.ts'
import { LocalStore } from '../../storage/payloads/local-store.ts'
import type { Database } from '../../storage/postgres/database.ts'
import { openRecords, type Records } from '../../storage/records/records.ts'
import { SecretBox } from '../../storage/secrets/secret-box.ts'
import { ApiClient } from './client.ts'
import { openTestDatabase, type Teardown } from './database.ts'

/** A type with secrets that belong to a URL. The installed ones of today have none. */
const posterSettings = z.object({
  url: targetUrl.describe('Where to post.'),
  http_basic_password: z.string().default('').describe('Write-only.'),
  http_headers: httpHeaders.describe('Write-only.'),
})

const modules = installedModules(['as2', 'file'])

const PLUGIN_TYPES: readonly PluginType[] = [
  ...modules.flatMap(({ pluginTypes }) => pluginTypes),
  {
    type: 'poster',
    role: 'target',
    title: 'Poster',
    settings: posterSettings,
    secrets: ['http_basic_password', 'http_headers'],
    actor: new URL('../../actors/file/writer.ts', import.meta.url),
  },
]

export interface TestApi {
  readonly client: ApiClient
  /** Address of the API with its prefix. */
  readonly base: string
  readonly database: Database
  readonly records: Records
  readonly box: SecretBox
  readonly supervisor: Supervisor
}

export interface TestApiOptions {
  readonly build?: 'developer' | 'release'
  readonly allowedOrigins?: readonly string[]
  /** More endpoints than the product's. */
  readonly endpoints?: readonly Endpoint[]
  readonly log?: Log
}

/** The REST API on a free port of loopback, with a database and a supervisor of its own. */
export async function startApi(
  t: Teardown & { testdir: () => string },
  options: TestApiOptions = {},
): Promise<TestApi> {
  const log = options.log ?? createLog(process.env['LOG_LEVEL'] ?? 'silent')
  const build = options.build ?? 'developer'
  const database = await openTestDatabase(t, ENTITIES)
  const box = new SecretBox('a key for tests alone')
  const records = openRecords({ orm: database.orm, box, clock: systemClock, pluginTypes: PLUGIN_TYPES })
  const directory = t.testdir()
  const supervisor = new Supervisor({
    node: 'test',
    log,
    clock: systemClock,
    process: {
      databaseUrl: database.url,
      nodeId: 'test',
      secretKey: 'a key for tests alone',
      payloadDirectory: directory,
      product: 'Waybill/test',
    },
    loadSpec: async (type, name) => {
      const instance = await records.plugins.instance(type, name)
      return instance === null
        ? null
        : {
            ...instance,
            role: records.pluginTypes.get(type).role,
            actor: records.pluginTypes.get(type).actor,
          }
    },
    onAlert: () => undefined,
  })
  t.teardown(() => supervisor.shutdown())
  const services = {
    ...records,
    pool: database.pool,
    payloads: await LocalStore.open(directory),
    protocolViews: { as2: (facts: unknown) => facts as Record<string, unknown> },
    supervisor,
    clock: systemClock,
    node: 'test',
    startedAt: new Date(),
  }
  const server = await buildServer({
    endpoints: [
      ...coreEndpoints(services),
      ...modules.flatMap((module) => module.endpoints(services)),
      ...(options.endpoints ?? []),
    ],
    config: { build, allowedOrigins: options.allowedOrigins ?? [], publicUrl: 'http://localhost:8080' },
    version: '0.0.0',
    log,
  })
  t.teardown(() => server.close())
  const port = await listen(server, { port: 0, host: '127.0.0.1' })
  const base = `http://127.0.0.1:${port}${API_PREFIX}`
  const client = build === 'developer' ? await ApiClient.connect(base) : ApiClient.bare(base)
  return { client, base, database, records, box, supervisor }
}
