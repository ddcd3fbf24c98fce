import { createServer } from 'node:net'
import pg from 'pg'
import { reasonOf } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { makeDirectory } from '../durable-file.ts'
import { StorageError } from '../storage-error.ts'
import { prepareCluster, SUPERUSER, type Cluster } from './embedded/cluster.ts'
import { endOrphans } from './embedded/postmaster.ts'
import { makeRuntimeDirectory, removeRuntimeDirectory } from './embedded/runtime-directory.ts'
import { startServer, type ServerProcess } from './embedded/server-process.ts'
import {
  endpointUrl,
  listenSettings,
  loadSettings,
  logSettings,
  type Endpoint,
  type ServerSettings,
} from './embedded/settings.ts'

export interface EmbeddedOptions {
  /** The data directory. The caller holds its lock: no other process runs a server in it. */
  readonly directory: string
  readonly log: Log
  /** Called once if the server ends without `stop`, with the reason in words. */
  readonly onExit?: (reason: string) => void
  /** Settings of PostgreSQL over ours. */
  readonly settings?: ServerSettings
}

export interface EmbeddedServer {
  /** The database of the records, as their owner, who is no superuser. */
  readonly url: string
  /** The database `postgres` as the superuser. */
  readonly superuserUrl: string
  readonly pid: number
  /** Ends the server and waits for it. A second call waits for the same end. */
  readonly stop: () => Promise<void>
}

/** Owns the records, in a database of the same name. */
export const OWNER = 'waybill'

/**
 * Starts the embedded PostgreSQL in `<directory>/postgresql`, making it at first. A server that an earlier process
 * left running there is ended before. Throws a StorageError whose message is one sentence for the operator.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const { directory, log } = options
  await makeDirectory(directory, 0o700).catch((thrown: unknown) => {
    throw new StorageError(`The directory ${directory} cannot be made: ${reasonOf(thrown)}`, {
      cause: thrown,
    })
  })
  const cluster = await prepareCluster(directory, log).catch((thrown: unknown) => {
    if (thrown instanceof StorageError) throw thrown
    throw new StorageError(`The database cannot be made in ${directory}: ${reasonOf(thrown)}`, {
      cause: thrown,
    })
  })
  await endOrphans(cluster.directory, log)
  const endpoint = await makeEndpoint(cluster)
  try {
    const settings = { ...loadSettings(), ...logSettings, ...options.settings, ...listenSettings(endpoint) }
    const server = await startServer(cluster, settings, log)
    return await serve(cluster, endpoint, server, options)
  } catch (thrown) {
    await removeEndpoint(endpoint)
    throw thrown
  }
}

async function serve(
  cluster: Cluster,
  endpoint: Endpoint,
  server: ServerProcess,
  options: EmbeddedOptions,
): Promise<EmbeddedServer> {
  const superuserUrl = endpointUrl(endpoint, SUPERUSER, cluster.password, 'postgres')
  await ensureDatabase(superuserUrl, cluster.password).catch(async (thrown: unknown) => {
    await server.stop()
    throw new StorageError(`The embedded PostgreSQL cannot be used: ${reasonOf(thrown)}`, { cause: thrown })
  })
  let stopped: Promise<void> | undefined
  const report = async () => {
    const reason = await server.ended
    if (stopped !== undefined) return
    await removeEndpoint(endpoint)
    options.onExit?.(reason)
  }
  void report()
  const stop = async () => {
    await server.stop()
    await removeEndpoint(endpoint)
  }
  return {
    url: endpointUrl(endpoint, OWNER, cluster.password, OWNER),
    superuserUrl,
    pid: server.pid,
    stop: () => (stopped ??= stop()),
  }
}

/** The role that owns the records, and their database; a start that was cut off between the two is completed. */
async function ensureDatabase(superuserUrl: string, password: string): Promise<void> {
  const client = new pg.Client({ connectionString: superuserUrl })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const role = await client.query('select from pg_roles where rolname = $1', [OWNER])
    if (role.rowCount === 0) {
      await client.query(`create role ${OWNER} login password ${client.escapeLiteral(password)}`)
    }
    const database = await client.query('select from pg_database where datname = $1', [OWNER])
    if (database.rowCount === 0) await client.query(`create database ${OWNER} owner ${OWNER}`)
  } finally {
    await client.end()
  }
}

async function makeEndpoint(cluster: Cluster): Promise<Endpoint> {
  if (process.platform === 'win32') return { kind: 'loopback', port: await freePort() }
  return { kind: 'socket', directory: await makeRuntimeDirectory(cluster.account) }
}

async function removeEndpoint(endpoint: Endpoint): Promise<void> {
  if (endpoint.kind === 'socket') await removeRuntimeDirectory(endpoint.directory)
}

async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve, reject) => {
    probe.once('error', reject).listen(0, '127.0.0.1', resolve)
  })
  const address = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  if (address === null || typeof address === 'string') throw new StorageError('No free port on loopback')
  return address.port
}
