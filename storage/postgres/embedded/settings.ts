import { totalmem } from 'node:os'

export type ServerSettings = Readonly<Record<string, string>>

const MIB = 2 ** 20
const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high)

/**
 * How the embedded server is set for our load: many small commits, payload stages of some kilobytes that live for
 * seconds. `fsync` and `synchronous_commit` stay on: a commit is what a sender's receipt stands for.
 */
export function loadSettings(): ServerSettings {
  const sharedMib = clamp(Math.floor(totalmem() / MIB / 8), 128, 1024)
  return {
    shared_buffers: `${sharedMib}MB`,
    // Two for each plugin instance, and the pool of the API.
    max_connections: '200',
    // Full pages after a checkpoint are most of the log; fewer checkpoints and compression make it small.
    wal_compression: 'on',
    max_wal_size: '2GB',
    min_wal_size: '256MB',
    checkpoint_timeout: '15min',
    // The journal and the states of deliveries change all the time: clean up early, in small portions.
    autovacuum_naptime: '15s',
    random_page_cost: '1.1',
    jit: 'off',
    timezone: 'UTC',
  }
}

/** Only who can enter the socket's directory reaches the server; on Windows only this machine. */
export function listenSettings(where: Endpoint): ServerSettings {
  return where.kind === 'socket'
    ? {
        listen_addresses: '',
        unix_socket_directories: where.directory,
        unix_socket_permissions: '0600',
        port: String(SOCKET_PORT),
      }
    : { listen_addresses: '127.0.0.1', port: String(where.port) }
}

/** The number in the name of the socket file. */
const SOCKET_PORT = 5432

export type Endpoint =
  | { readonly kind: 'socket'; readonly directory: string }
  | { readonly kind: 'loopback'; readonly port: number }

export function endpointUrl(where: Endpoint, user: string, password: string, database: string): string {
  const credentials = `${user}:${encodeURIComponent(password)}`
  return where.kind === 'socket'
    ? `postgres://${credentials}@localhost:${SOCKET_PORT}/${database}?host=${encodeURIComponent(where.directory)}`
    : `postgres://${credentials}@127.0.0.1:${where.port}/${database}`
}

/**
 * The server's messages in English, without those about single statements: they repeat what the program handles
 * itself, and would carry values of records.
 */
export const logSettings: ServerSettings = {
  lc_messages: 'C',
  log_destination: 'stderr',
  logging_collector: 'off',
  log_line_prefix: '',
  log_min_messages: 'log',
  log_checkpoints: 'off',
}
