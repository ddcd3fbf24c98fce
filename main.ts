import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Pool } from 'pg'
import { installedModules } from './actors/registry.ts'
import { HELP, parseCommand, type Command } from './api/cli/command.ts'
import { tokenChecker } from './api/rest/authentication/check-token.ts'
import { authenticator } from './api/rest/caller.ts'
import { coreEndpoints, type CoreServices } from './api/rest/endpoints.ts'
import { openEvents } from './api/rest/events.ts'
import { drainOf, type Drain } from './api/rest/drain.ts'
import { buildServer, listen } from './api/rest/server.ts'
import { systemClock } from './runtime/clock.ts'
import { localUrl, parseConfig, type Config } from './runtime/config.ts'
import type { Endpoint } from './runtime/endpoint/endpoint.ts'
import { describeFailure, OperatorError, WaybillError } from './runtime/errors.ts'
import { createLog, type Log } from './runtime/log.ts'
import { endNow } from './runtime/process-end.ts'
import type { PluginType } from './runtime/module.ts'
import { Rounds, type RoundsOptions } from './runtime/rounds.ts'
import { Supervisor } from './runtime/supervisor/supervisor.ts'
import type { ProcessFacts } from './storage/access.ts'
import { alertRound } from './storage/alerts/alert-round.ts'
import { PluginFailures } from './storage/alerts/plugin-failures.ts'
import { AuditLog } from './storage/audit/audit-log.ts'
import { openDataDirectory, type DataDirectory } from './storage/data-directory/data-directory.ts'
import { importsRound } from './storage/certificates/imports.ts'
import { UploadReader } from './storage/certificates/reading/upload-reader.ts'
import { isAnybodyKnown, openIdentity } from './storage/identity/identity.ts'
import { ENTITIES } from './storage/records/entities.ts'
import { clockRound } from './storage/exchange/clock.ts'
import { drain } from './storage/exchange/drain.ts'
import { countRound } from './storage/exchange/count-round.ts'
import type { WatchedDirectory } from './storage/exchange/disk-room.ts'
import { startWatch } from './storage/exchange/watch.ts'
import { nodeIdOf } from './storage/data-directory/node-id.ts'
import { placeOf } from './storage/payloads/connect.ts'
import { LeftoverSweep } from './storage/payloads/leftovers.ts'
import { moverRound } from './storage/payloads/mover.ts'
import { openPayloads } from './storage/payloads/open-payloads.ts'
import { StorageTest } from './storage/payloads/storage-test.ts'
import type { PayloadStore } from './storage/payloads/store.ts'
import { openDatabase } from './storage/postgres/database.ts'
import { startEmbedded } from './storage/postgres/embedded.ts'
import { migrate } from './storage/postgres/migrate.ts'
import { openPool } from './storage/postgres/pool.ts'
import { namingOutages } from './storage/postgres/unavailable.ts'
import { openRecords, type Records } from './storage/records/records.ts'
import { InstanceList } from './storage/plugins/instance-list.ts'
import { presentKey } from './storage/secrets/present-key.ts'
import { SecretBox } from './storage/secrets/secret-box.ts'
import { storageOf, type StorageSettings } from './storage/settings/storage-settings.ts'
import { statsRound } from './storage/stats/fold.ts'

/** Connections of the API. */
const POOL_SIZE = 10
/** Connections of the rounds: clock, mover and stats, which run hot statements as the instances do on theirs. */
const HOT_POOL_SIZE = 3
/** Connections on which credentials are checked, so that no request waits for those of others. */
const CREDENTIALS_POOL_SIZE = 2
const PAUSE_AFTER_FAILURE_MS = 1_000
/**
 * Ctrl+C under npm arrives twice, from the terminal and from npm: the same signal so soon again is the same. On a busy
 * machine npm takes its time.
 */
const ECHO_MS = 1_000
const VERSION = versionOf()
const FIRST_TOKEN =
  'Nobody can use the API yet. A first API token: npx waybill token create --service-account ops --label first'

const command = parseCommand(process.argv.slice(2))
switch (command.kind) {
  case 'help':
    console.log(HELP)
    break
  case 'version':
    console.log(`waybill ${VERSION}`)
    break
  case 'mistake':
    console.error(`${command.message}\n\n${HELP}`)
    process.exit(2)
    break
  case 'task':
    await perform(command)
    break
  case 'start':
    await start()
}

/** The version in `package.json`: beside this file in the source, one folder up in the build. */
function versionOf(): string {
  for (const place of ['./package.json', '../package.json']) {
    try {
      return (JSON.parse(readFileSync(new URL(place, import.meta.url), 'utf8')) as { version: string })
        .version
    } catch {
      continue
    }
  }
  throw new Error('package.json is missing')
}

/** Runs a command beside `start`. Standard output is for what it was asked for, standard error for all else. */
async function perform({ run: task }: Command & { readonly kind: 'task' }): Promise<void> {
  try {
    const config = parseConfig(process.env)
    await task({
      config,
      // What the server tells while it starts a database is no news here.
      log: createLog(config.logLevel === 'info' ? 'warn' : config.logLevel),
      input: process.stdin,
      print: (line) => console.log(line),
      say: (line) => console.error(line),
    })
    process.exit(0)
  } catch (error) {
    const isTold = error instanceof OperatorError || error instanceof WaybillError
    console.error(isTold ? `waybill: ${describeFailure(error)}` : error)
    process.exit(1)
  }
}

/**
 * Runs until a signal or a failure ends it, which resolve or reject `ending`. What is wrong outside of the program is
 * one line and exit code 1.
 */
async function start(): Promise<void> {
  const ending = Promise.withResolvers<void>()
  // It is awaited when all is started; a failure before then is told by the part that met it.
  ending.promise.catch(() => undefined)
  let first: { readonly signal: NodeJS.Signals; readonly atMs: number } | null = null
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      const atMs = performance.now()
      if (first === null) first = { signal, atMs }
      else if (signal !== first.signal || atMs - first.atMs > ECHO_MS) endNow(1)
      ending.resolve()
    })
  }
  try {
    const { hasLostThreads } = await run(parseConfig(process.env), ending)
    if (hasLostThreads) endNow(0)
    process.exit(0)
  } catch (error) {
    console.error(error instanceof OperatorError ? `waybill: ${error.message}` : error)
    process.exit(1)
  }
}

/** Wires the parts from the ground up, and waits. They end in the opposite order. */
async function run(config: Config, ending: PromiseWithResolvers<void>): Promise<Supervisor> {
  const log = createLog(config.logLevel, { node: config.node })
  const startedAt = systemClock.now()
  const modules = installedModules(config.modules)
  await using running = new AsyncDisposableStack()

  const { directory, database, audit } = await openRecordsDatabase(config, { log, running, ending })
  const { url: databaseUrl, pool, orm } = database
  const secretKey = await presentKey(pool, directory, config)
  const pluginTypes = modules.flatMap((module) => module.pluginTypes)
  const box = new SecretBox(secretKey)
  const records = openRecords({ orm, box, clock: systemClock, pluginTypes, audit })
  const identity = openIdentity({ orm, pool, box, clock: systemClock, log, audit })
  running.defer(() => identity.lastUse.stop())
  const settings = await records.settings.get()
  const { payloads, storageInUse, ...opened } = await openPayloads(running, pool, storageOf(settings))
  const nodeId = await nodeIdOf(directory)
  const facts: PublicFacts = {
    databaseUrl,
    secretKey,
    nodeId,
    runId: randomUUID(),
    leaseSeconds: config.deliveryLeaseSeconds,
    storage: storageInUse,
    earlierStorages: opened.earlierStorages,
    product: settings.identification_hide_version ? 'Waybill' : `Waybill/${VERSION}`,
    publicUrl: config.publicUrl,
  }
  const { supervisor, pluginFailures } = superviseInstances(running, { config, log, facts, records, pool })
  const rounds = { databaseUrl, log, payloads, supervisor, nodeId }
  startRounds(running, { ...rounds, maxAnnouncements: settings.delivery_max_dispatches })
  const directories = directoriesOf(config, storageInUse)
  const { node, maxWaitingDeliveries: maxWaiting } = config
  const { intake } = await startWatch(running, { ...rounds, ...opened, node, directories, maxWaiting })
  const instances = new InstanceList({ ...records, supervisor })
  const uploadReader = new UploadReader({ log })
  running.defer(() => uploadReader.close())
  const events = openEvents({ databaseUrl, clock: systemClock, log })
  running.defer(() => events.close())
  const services = {
    ...records,
    ...identity,
    audit,
    pool,
    payloads,
    supervisor,
    clock: systemClock,
    intake,
    instances,
    pluginFailures,
    node,
    startedAt,
    publicUrl: () => facts.publicUrl,
    storageInUse,
    storageTest: new StorageTest({ clock: systemClock }),
    uploadReader,
    events,
  }
  const endpoints = endpointsOf(modules, services)
  // Whoever reads where we listen finds every instance listed.
  await instances.round()
  startRound(running, { name: 'instances', log, round: () => instances.round() })
  const drainApi = await serve(running, { config, log, endpoints, modules, pool, facts, identity })

  void supervisor.startAll()
  await ending.promise
  log.info('stopping')
  await drain({ drainApi, supervisor, pool, nodeId, log })
  return supervisor
}

/** What of the service lies on disks of this machine. */
function directoriesOf(config: Config, storage: StorageSettings): readonly WatchedDirectory[] {
  const { storage_backend: backend, storage_local_directory: path } = storage
  const data = resolve(config.dataDirectory)
  return [
    ...(backend === 'local' ? [{ path: resolve(path), place: placeOf(storage) }] : []),
    ...(config.databaseUrl === undefined ? [{ path: data, place: `the data directory ${data}` }] : []),
  ]
}

/** The endpoints of the core, then those of the modules. */
function endpointsOf(
  modules: ReturnType<typeof installedModules>,
  services: Omit<CoreServices, 'protocolViews'>,
): readonly Endpoint[] {
  const views = modules.flatMap(({ name, protocolView }) =>
    protocolView === null ? [] : [[name, protocolView] as const],
  )
  const core = coreEndpoints({ ...services, protocolViews: Object.fromEntries(views) })
  return [...core, ...modules.flatMap((module) => module.endpoints(services))]
}

function startRound(
  running: AsyncDisposableStack,
  options: Pick<RoundsOptions, 'name' | 'log' | 'round'>,
): void {
  const rounds = Rounds.start({
    ...options,
    clock: systemClock,
    pauseAfterFailureMs: PAUSE_AFTER_FAILURE_MS,
  })
  running.defer(() => rounds.stop())
}

/** With the port 0 it is known when the API listens, which is before any instance starts. */
type PublicFacts = ProcessFacts & { publicUrl: string }

interface ApiParts {
  readonly config: Config
  readonly log: Log
  readonly endpoints: readonly Endpoint[]
  readonly modules: ReturnType<typeof installedModules>
  readonly pool: Pool
  readonly facts: PublicFacts
  readonly identity: ReturnType<typeof openIdentity>
}

/** Starts the API, and says where it listens. The answer ends it. */
async function serve(running: AsyncDisposableStack, parts: ApiParts): Promise<Drain> {
  const { config, log, endpoints, modules, pool, facts, identity } = parts
  const { lastUse } = identity
  const { databaseUrl: url, product: userAgent } = facts
  const applicationName = 'waybill credentials'
  const credentials = openPool({ url, size: CREDENTIALS_POOL_SIZE, applicationName, log })
  running.defer(() => credentials.end())
  const checkToken = tokenChecker({ pool: credentials, lastUse, clock: systemClock, log, userAgent })
  const authenticate = authenticator(config, checkToken)
  const webhooks = modules.flatMap((module) => module.webhooks ?? [])
  const server = await buildServer({ endpoints, webhooks, authenticate, config, version: VERSION, log })
  const drainApi = drainOf(server, systemClock)
  running.defer(() => drainApi(0))
  const port = await listen(server, { port: config.httpPort, host: config.httpHost })
  if (facts.publicUrl === localUrl(0)) facts.publicUrl = localUrl(port)
  console.log(`Waybill ${VERSION} listens on http://${config.httpHost ?? 'localhost'}:${port}`)
  if (config.build === 'release' && !(await isAnybodyKnown(pool))) console.log(FIRST_TOKEN)
  return drainApi
}

interface RoundsParts {
  readonly databaseUrl: string
  readonly log: Log
  readonly payloads: PayloadStore
  readonly supervisor: Supervisor
  readonly nodeId: string
  readonly maxAnnouncements: number
}

/**
 * Starts what the process does by itself: the exchange's clock, the mover of payloads, the counts of lists and stats, and
 * the removal of uploads that nobody imports.
 */
function startRounds(running: AsyncDisposableStack, parts: RoundsParts): void {
  const { databaseUrl, log, payloads, supervisor, nodeId, maxAnnouncements } = parts
  const pool = openPool({ url: databaseUrl, size: HOT_POOL_SIZE, applicationName: 'waybill rounds', log })
  running.defer(() => pool.end())
  const announce = (target: string, count: number): void => supervisor.announce(target, count)
  const sweep = new LeftoverSweep({ pool, store: payloads, log })
  running.defer(() => sweep.stop())
  const rounds = {
    clock: () => clockRound({ pool, log, nodeId, maxAnnouncements, announce }),
    mover: () => moverRound(pool, payloads),
    'payload leftovers': () => sweep.round(),
    'certificate imports': () => importsRound(pool),
    alerts: () => alertRound({ pool, log, nodeId }),
    'message counts': () => countRound(pool),
    stats: () => statsRound(pool),
  }
  for (const [name, round] of Object.entries(rounds)) startRound(running, { name, log, round })
}

interface Surroundings {
  readonly log: Log
  readonly running: AsyncDisposableStack
  readonly ending: PromiseWithResolvers<void>
}

/** Opens the database of the records, at this version's schema, with the log of its changes, and holds the data directory. */
async function openRecordsDatabase(config: Config, surroundings: Surroundings) {
  const { log, running } = surroundings
  const directory = await openDataDirectory(config.dataDirectory)
  running.defer(() => directory.release())
  const url = config.databaseUrl ?? (await startDatabase(directory, surroundings))
  await migrate({ url, log })
  const database = await openDatabase({ url, poolSize: POOL_SIZE, entities: ENTITIES, log })
  running.defer(() => database.close())
  const audit = new AuditLog({ pool: database.pool, key: config.auditKey ?? null })
  const warning = await audit.keyWarning()
  if (warning !== null) log.warn(warning)
  return { directory, database, audit }
}

/** Starts the embedded PostgreSQL. Without it nothing works, so its end is the end of the process. */
async function startDatabase(directory: DataDirectory, surroundings: Surroundings): Promise<string> {
  const { log, running, ending } = surroundings
  const onExit = (reason: string): void =>
    ending.reject(new OperatorError(`The embedded PostgreSQL has ended: ${reason}`))
  const server = await startEmbedded({ directory: directory.path, log, onExit })
  running.defer(() => server.stop())
  return server.url
}

interface SupervisionParts extends Pick<ApiParts, 'config' | 'log' | 'facts' | 'pool'> {
  readonly records: Records
}

/** The supervisor of the process, and what alerts of the instances that fail. */
function superviseInstances(running: AsyncDisposableStack, parts: SupervisionParts) {
  const { config, log, facts, records, pool } = parts
  const types = records.pluginTypes.all
  const pluginFailures = new PluginFailures({ pool, log, clock: systemClock, node: config.node })
  running.defer(() => pluginFailures.stop())
  const supervisor = new Supervisor({
    node: config.node,
    log,
    clock: systemClock,
    process: facts,
    loadSpec: async (type, name) => {
      const instance = await namingOutages(records.plugins.instance(type, name))
      if (instance === null) return null
      const { generation, settings } = instance
      return { ...identityOf(instance, types), generation, settings }
    },
    onAlert: (alert) => {
      log.error(alert, 'a plugin instance has failed')
      pluginFailures.note(alert)
    },
  })
  running.defer(() => supervisor.shutdown())
  return { supervisor, pluginFailures }
}

function identityOf(
  { type, name }: { readonly type: string; readonly name: string },
  types: readonly PluginType[],
) {
  const found = types.find((candidate) => candidate.type === type)
  if (found === undefined) throw new Error(`The plugin type ${type} is not installed`)
  return { type, name, role: found.role, actor: found.actor }
}
