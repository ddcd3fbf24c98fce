import { WaybillError } from '../../runtime/errors.ts'

/**
 * What PostgreSQL says when it is the server that cannot, not the statement that is wrong: the connection (08), its
 * resources such as disk, memory and connections (53), a shutdown or a start (57P), a server that became a standby
 * (25006), a file system that fails (58), a statement that took too long (57014).
 */
const UNAVAILABLE = /^(08|53|57P|58|25006|57014)/

/** Of the driver, which has no codes for them, and of bounded-client.ts. */
const DRIVER_WORDS =
  /^(Connection terminated|timeout exceeded when trying to connect|timeout expired|Client has encountered a connection error|Client was closed|The database gave no answer)/

/** Of the network. */
const NETWORK_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'EPIPE',
  'ENOTFOUND',
  'EAI_AGAIN',
])
const MOST_CAUSES = 5

/** Whether the database could not be asked, or could not do what it was asked: the same may succeed later. */
export function isUnavailable(thrown: unknown): boolean {
  let error = thrown
  for (let depth = 0; error instanceof Error && depth < MOST_CAUSES; depth += 1) {
    if (isUnavailableItself(error)) return true
    error = error.cause
  }
  return false
}

/** The ORM makes errors of its own of the driver's, with the same properties. */
function isUnavailableItself(error: Error): boolean {
  if (DRIVER_WORDS.test(error.message)) return true
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if ('severity' in error) return UNAVAILABLE.test(code)
  // All addresses of a name that failed are one error.
  if (error instanceof AggregateError) return error.errors.some(isUnavailable)
  // The socket file of a server that does not run.
  if (code === 'ENOENT') return 'syscall' in error && error.syscall === 'connect'
  return NETWORK_CODES.has(code)
}

/** For what tries again by itself when the database was away: the same work, with that failure as DATABASE_UNAVAILABLE. */
export async function namingOutages<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work
  } catch (error) {
    if (!isUnavailable(error)) throw error
    const message = 'The database does not answer; the start is tried again by itself'
    throw new WaybillError('DATABASE_UNAVAILABLE', message, undefined, { cause: error })
  }
}
