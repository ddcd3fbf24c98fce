import type { PeerCertificate } from 'node:tls'
import { reasonOf } from '../../runtime/errors.ts'

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

/** What a server may say in an alert of TLS (RFC 8446 §6) about us, by the end of OpenSSL's error code. */
const ALERTS: readonly (readonly [RegExp, string])[] = [
  [/ALERT_CERTIFICATE_REQUIRED$/, 'the server demands a client certificate'],
  [
    /ALERT_(BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE|CERTIFICATE_\w+|UNKNOWN_CA|ACCESS_DENIED|DECRYPT_ERROR)$/,
    'the server refuses our client certificate',
  ],
  [/ALERT_PROTOCOL_VERSION$/, 'the server does not take TLS 1.2 or 1.3'],
  [/UNSUPPORTED_PROTOCOL$/, 'the server offers no TLS version from 1.2 on'],
  [
    /ALERT_HANDSHAKE_FAILURE$/,
    'the server refuses the handshake: no cipher is common, or it demands a client certificate',
  ],
  [/UNRECOGNIZED_NAME$/, 'the server does not know the name of the host'],
  [
    /(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|RECORD_LAYER_FAILURE)$/,
    'the server does not speak TLS on this port',
  ],
]

/** A failed handshake; null for what is no matter of TLS. */
export function handshakeProblem(error: unknown): string | null {
  const code = codeOf(error)
  const [, known] = ALERTS.find(([pattern]) => pattern.test(code)) ?? []
  if (known !== undefined) return known
  if (code.startsWith('ERR_SSL_') || code === 'EPROTO') return `the TLS handshake failed: ${reasonOf(error)}`
  return null
}

export const CLOSED_AFTER_HANDSHAKE =
  'the server closed the connection right after the handshake, as one does that demands another client certificate'

/** Why the certificate of the server is not accepted. `code` is OpenSSL's. */
export function verificationProblem(code: string, peer: PeerCertificate, ownAnchor: boolean): string {
  const named = `the TLS certificate of the server (${subjectOf(peer)})`
  const anchor = ownAnchor ? 'the certificate that the profile trusts' : 'the public authorities'
  switch (code) {
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
      return ownAnchor
        ? `${named} is self-signed, and not the one that the profile trusts`
        : `${named} is self-signed, and the profile does not trust it: set tls_ca_certificate_id`
    case 'SELF_SIGNED_CERT_IN_CHAIN':
      return `${named} is of an authority that is not among ${anchor}`
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'CERT_UNTRUSTED':
      return `${named} is of the unknown authority ${issuerOf(peer)}: it is not among ${anchor}, or the server does not send what lies between`
    case 'CERT_HAS_EXPIRED':
      return isPast(peer.valid_to)
        ? `${named} expired on ${dayOf(peer.valid_to)}`
        : `${named} is of an authority whose certificate has expired`
    case 'CERT_NOT_YET_VALID':
      return `${named} is valid from ${dayOf(peer.valid_from)} on only`
    default:
      return `${named} is not accepted: ${code.toLowerCase().replaceAll('_', ' ')}`
  }
}

export function subjectOf(peer: PeerCertificate): string {
  return nameOf(peer.subject)
}

function issuerOf(peer: PeerCertificate): string {
  return nameOf(peer.issuer)
}

/** The common name, else all that there is. A part that occurs twice is a list, whatever its type says. */
function nameOf(name: PeerCertificate['subject'] | undefined): string {
  const parts = Object.entries(name ?? {}).map(([key, value]: [string, unknown]) => [
    key,
    [value].flat().join('+'),
  ])
  const [, commonName] = parts.find(([key]) => key === 'CN') ?? []
  return printable(commonName ?? parts.map((part) => part.join('=')).join(', ')) || 'without a name'
}

function isPast(time: string): boolean {
  return Date.parse(time) < Date.now()
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
