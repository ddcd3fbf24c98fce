import { reasonOf } from '../../../runtime/errors.ts'

/** Failures of connections in an operator's words. */

/** The code of a system or TLS error; empty for another one. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}

export function resolveProblem(host: string, error: unknown): string {
  switch (codeOf(error)) {
    case 'ENOTFOUND':
      return `the name ${host} has no address`
    case 'EAI_AGAIN':
      return `the name ${host} cannot be resolved: the name server does not answer`
    default:
      return `the name ${host} cannot be resolved: ${reasonOf(error)}`
  }
}

/** `to` is what was asked for; an error of several addresses tells each. */
export function connectProblem(to: string, error: unknown): string {
  if (error instanceof AggregateError) {
    return error.errors.map((each: unknown) => connectProblem(addressOf(each) ?? to, each)).join('; ')
  }
  const place = addressOf(error) ?? to
  switch (codeOf(error)) {
    case 'ECONNREFUSED':
      return `${place} refuses the connection: nothing listens there, or a firewall refuses it`
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'EADDRNOTAVAIL':
      return `${place} cannot be reached from here: there is no way to its network`
    case 'ETIMEDOUT':
      return `${place} does not answer: a firewall may drop the connection`
    case 'ECONNRESET':
      return `${place} closed the connection at once`
    case 'EACCES':
    case 'EPERM':
      return `this machine does not let the connection to ${place} out`
    default:
      return `no connection to ${place}: ${reasonOf(error)}`
  }
}

function addressOf(error: unknown): string | null {
  if (!(error instanceof Error) || !('address' in error) || !('port' in error)) return null
  const { address, port } = error
  return typeof address === 'string' && typeof port === 'number' ? hostAndPort(address, port) : null
}

export function hostAndPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/** An ISO date. */
export function dayOf(time: string): string {
  const parsed = new Date(time)
  return Number.isNaN(parsed.getTime()) ? time : parsed.toISOString().slice(0, 10)
}

const LONGEST_FOREIGN_TEXT = 200

/** What another party wrote, for an answer and a log line. */
export function printable(text: string): string {
  return text
    .replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .trim()
    .slice(0, LONGEST_FOREIGN_TEXT)
}

/** So many things are named; a text that names thousands helps nobody. */
const MAX_NAMED = 10

export function enumerated(texts: readonly string[], separator: string): string {
  const named = texts.slice(0, MAX_NAMED).join(separator)
  return texts.length > MAX_NAMED ? `${named} and ${texts.length - MAX_NAMED} more` : named
}
