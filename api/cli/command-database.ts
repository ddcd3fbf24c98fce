import { setTimeout as sleep } from 'node:timers/promises'
import { AuditLog } from '../../storage/audit/audit-log.ts'
import {
  DirectoryInUseError,
  openDataDirectory,
  type DataDirectory,
} from '../../storage/data-directory/data-directory.ts'
import { openDatabase, type Database } from '../../storage/postgres/database.ts'
import { OWNER, startEmbedded } from '../../storage/postgres/embedded.ts'
import { runningEmbedded } from '../../storage/postgres/embedded/running.ts'
import { migrate } from '../../storage/postgres/migrate.ts'
import { ENTITIES } from '../../storage/records/entities.ts'
import type { CommandContext } from './context.ts'

const POOL_SIZE = 2
/** A server that is starting or ending holds the data directory without a database to talk to. */
const PATIENCE_MS = 60_000
const POLL_MS = 100

/** The database, and the log of what a command changes in it. */
export interface CommandDatabase extends Database {
  readonly audit: AuditLog
}

/**
 * Runs a command's work on the database of the settings: that of DATABASE_URL; or the embedded one, which is started
 * for the command, or reached through the server that runs it.
 */
export async function withDatabase<T>(
  context: CommandContext,
  work: (database: CommandDatabase) => Promise<T>,
): Promise<T> {
  return ending(async (open) => {
    const url = context.config.databaseUrl ?? (await embeddedUrl(context, open))
    return work(await opened(url, context, open))
  })
}

/** The same for work that no server may run beside: with the data directory held, which one of this machine holds. */
export async function withDatabaseAlone<T>(
  context: CommandContext,
  work: (database: CommandDatabase, directory: DataDirectory) => Promise<T>,
): Promise<T> {
  return ending(async (open) => {
    const { config } = context
    const directory = await openDataDirectory(config.dataDirectory)
    open.defer(() => directory.release())
    const url = config.databaseUrl ?? (await startedUrl(directory, context, open))
    return work(await opened(url, context, open), directory)
  })
}

/** Whatever was opened is closed at the end, also when a signal ends the command: no database is left running. */
async function ending<T>(run: (open: AsyncDisposableStack) => Promise<T>): Promise<T> {
  await using open = new AsyncDisposableStack()
  const onSignal = (): void => {
    void open.disposeAsync().finally(() => process.exit(1))
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, onSignal)
    open.defer(() => void process.removeListener(signal, onSignal))
  }
  return await run(open)
}

async function opened(
  url: string,
  { log, config }: CommandContext,
  open: AsyncDisposableStack,
): Promise<CommandDatabase> {
  await migrate({ url, log })
  const database = await openDatabase({
    url,
    poolSize: POOL_SIZE,
    entities: ENTITIES,
    log,
    applicationName: 'waybill command',
  })
  open.defer(() => database.close())
  const audit = new AuditLog({ pool: database.pool, key: config.auditKey ?? null, keepsChain: true })
  return { ...database, audit }
}

async function embeddedUrl(context: CommandContext, open: AsyncDisposableStack): Promise<string> {
  const { dataDirectory } = context.config
  for (const deadline = Date.now() + PATIENCE_MS; ; await sleep(POLL_MS)) {
    try {
      const directory = await openDataDirectory(dataDirectory)
      open.defer(() => directory.release())
      return await startedUrl(directory, context, open)
    } catch (thrown) {
      if (!(thrown instanceof DirectoryInUseError)) throw thrown
      const url = await runningEmbedded(dataDirectory, OWNER)
      if (url !== null) return url
      if (Date.now() > deadline) throw thrown
    }
  }
}

async function startedUrl(
  directory: DataDirectory,
  { log }: CommandContext,
  open: AsyncDisposableStack,
): Promise<string> {
  const server = await startEmbedded({ directory: directory.path, log })
  open.defer(() => server.stop())
  return server.url
}
