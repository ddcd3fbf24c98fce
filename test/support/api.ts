import { installedModules } from '../../actors/registry.ts'
import { tokenChecker } from '../../api/rest/authentication/check-token.ts'
import { authenticator } from '../../api/rest/caller.ts'
import { coreEndpoints } from '../../api/rest/endpoints.ts'
import { openEvents, type OpenEvents } from '../../api/rest/events.ts'
import type { Timeouts } from '../../api/rest/http-server.ts'
import { API_PREFIX, buildServer, listen } from '../../api/rest/server.ts'
import { systemClock, type Clock } from '../../runtime/clock.ts'
import type { Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { createLog, type Log } from '../../runtime/log.ts'
import { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import { PluginFailures } from '../../storage/alerts/plugin-failures.ts'
import { AuditLog } from '../../storage/audit/audit-log.ts'
import { UploadReader, type UploadReaderOptions } from '../../storage/certificates/reading/upload-reader.ts'
import { ENTITIES } from '../../storage/records/entities.ts'
import { IntakeGate } from '../../storage/exchange/intake-gate.ts'
import { LocalStore } from '../../storage/payloads/local-store.ts'
import { StorageTest } from '../../storage/payloads/storage-test.ts'
import { storageOf } from '../../storage/settings/storage-settings.ts'
import { InstanceList } from '../../storage/plugins/instance-list.ts'
import { openIdentity, type IdentityRecords } from '../../storage/identity/identity.ts'
import type { TailLimits } from '../../storage/events/tail.ts'
import { openPool } from '../../storage/postgres/pool.ts'
import { namingOutages } from '../../storage/postgres/unavailable.ts'
import type { Database } from '../../storage/postgres/database.ts'
import { openRecords, type Records } from '../../storage/records/records.ts'
import { SecretBox } from '../../storage/secrets/secret-box.ts'
import { ApiClient } from './client.ts'
import { openTestDatabase, type Teardown } from './database.ts'
import { localStorage } from './storages.ts'

/** The modules that the product installs. */
const ALL_MODULES = ['as2', 'file', 'http-poster', 'notifications']

export interface TestApi {
  readonly client: ApiClient
  /** Address of the API with its prefix. */
  readonly base: string
  readonly database: Database
  readonly records: Records
  readonly identity: IdentityRecords
  readonly box: SecretBox
  readonly supervisor: Supervisor
  readonly uploadReader: UploadReader
  readonly events: OpenEvents
  /** Told by the test alone: no round looks. */
  readonly intake: IntakeGate
  readonly instances: InstanceList
  /** Where the payloads lie. */
  readonly directory: string
}

export interface TestApiOptions {
  readonly build?: 'developer' | 'release'
  readonly allowedOrigins?: readonly string[]
  readonly publicUrl?: string
  readonly timeouts?: Partial<Timeouts>
  /** More endpoints than the product's. */
  readonly endpoints?: readonly Endpoint[]
  /** The installed modules; all of them when left out. */
  readonly modules?: readonly string[]
  readonly log?: Log
  /** Left out: the audit log is not chained. */
  readonly auditKey?: string
  /** Of tokens and of what they are checked by. */
  readonly clock?: Clock
  /** How uploads of certificates are read; left out: as the product does. */
  readonly reader?: Pick<UploadReaderOptions, 'limits' | 'thread'>
  readonly eventLimits?: Partial<TailLimits>
}

/** The REST API on a free port of loopback, with a database and a supervisor of its own. */
export async function startApi(
  t: Teardown & { testdir: () => string },
  options: TestApiOptions = {},
): Promise<TestApi> {
  const log = options.log ?? createLog(process.env['LOG_LEVEL'] ?? 'silent')
  const build = options.build ?? 'developer'
  const publicUrl = options.publicUrl ?? 'http://localhost:8080'
  const database = await openTestDatabase(t, ENTITIES)
  const box = new SecretBox('a key for tests alone')
  const modules = installedModules(options.modules ?? ALL_MODULES)
  const pluginTypes = modules.flatMap((module) => module.pluginTypes)
  const audit = new AuditLog({ pool: database.pool, key: options.auditKey ?? null })
  const records = openRecords({ orm: database.orm, box, clock: systemClock, pluginTypes, audit })
  const clock = options.clock ?? systemClock
  const identity = openIdentity({ orm: database.orm, pool: database.pool, box, clock, log, audit })
  t.teardown(() => identity.lastUse.stop())
  const credentials = openPool({ url: database.url, size: 2, applicationName: 'waybill credentials', log })
  t.teardown(() => credentials.end())
  const { lastUse } = identity
  const checkToken = tokenChecker({ pool: credentials, lastUse, clock, log, userAgent: 'Waybill/test' })
  const directory = t.testdir()
  const pluginFailures = new PluginFailures({ pool: database.pool, log, clock: systemClock, node: 'test' })
  t.teardown(() => pluginFailures.stop())
  const supervisor = new Supervisor({
    node: 'test',
    log,
    clock: systemClock,
    process: {
      databaseUrl: database.url,
      nodeId: 'test',
      runId: 'test',
      leaseSeconds: 60,
      secretKey: 'a key for tests alone',
      storage: localStorage(directory),
      earlierStorages: [],
      product: 'Waybill/test',
      publicUrl,
    },
    loadSpec: async (type, name) => {
      const instance = await namingOutages(records.plugins.instance(type, name))
      return instance === null
        ? null
        : {
            ...instance,
            role: records.pluginTypes.get(type).role,
            actor: records.pluginTypes.get(type).actor,
          }
    },
    onAlert: (alert) => pluginFailures.note(alert),
  })
  t.teardown(() => supervisor.shutdown())
  const intake = new IntakeGate()
  const instances = new InstanceList({ ...records, supervisor })
  const uploadReader = new UploadReader({ log, ...options.reader })
  t.teardown(() => uploadReader.close())
  const events = openEvents({
    databaseUrl: database.url,
    clock: systemClock,
    log,
    limits: options.eventLimits ?? {},
  })
  t.teardown(() => events.close())
  const services = {
    ...records,
    ...identity,
    audit,
    pool: database.pool,
    payloads: await LocalStore.open(directory),
    protocolViews: { as2: (facts: unknown) => facts as Record<string, unknown> },
    supervisor,
    clock,
    intake,
    instances,
    pluginFailures,
    node: 'test',
    startedAt: new Date(),
    publicUrl: () => publicUrl,
    storageInUse: storageOf(await records.settings.get()),
    storageTest: new StorageTest({ clock: systemClock }),
    uploadReader,
    events,
  }
  const server = await buildServer({
    endpoints: [
      ...coreEndpoints(services),
      ...modules.flatMap((module) => module.endpoints(services)),
      ...(options.endpoints ?? []),
    ],
    webhooks: modules.flatMap((module) => module.webhooks ?? []),
    authenticate: authenticator({ build, publicUrl }, checkToken),
    config: {
      allowedOrigins: options.allowedOrigins ?? [],
      publicUrl,
    },
    version: '0.0.0',
    log,
    timeouts: options.timeouts ?? {},
  })
  t.teardown(() => server.close())
  const port = await listen(server, { port: 0, host: '127.0.0.1' })
  const base = `http://127.0.0.1:${port}${API_PREFIX}`
  const client = build === 'developer' ? await ApiClient.connect(base) : ApiClient.bare(base)
  return {
    client,
    base,
    database,
    records,
    identity,
    box,
    supervisor,
    uploadReader,
    events,
    intake,
    instances,
    directory,
  }
}
