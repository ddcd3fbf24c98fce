import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { reasonOf } from '../../../runtime/errors.ts'
import { codeOf, dayOf, printable } from './words.ts'

/** Failures of TLS in an operator's words: those of a check, and those of a delivery. */

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
  if (!/^(EPROTO$|ERR_(OS)?SSL_)/.test(code)) return null
  const reason = opensslReason(error)
  // What fails while we write has no code of its own.
  const name = code === 'EPROTO' ? reason.toUpperCase().replaceAll(' ', '_') : code
  const [, known] = ALERTS.find(([pattern]) => pattern.test(name)) ?? []
  return known ?? `the TLS handshake failed: ${reason}`
}

/** The message may be a line of OpenSSL's log, `error:<code>:<library>:<function>:<reason>:<file>:…` and an end. */
function opensslReason(error: unknown): string {
  if (error instanceof Error && 'reason' in error && typeof error.reason === 'string') return error.reason
  const text = reasonOf(error)
  const [, reason] = /\berror:[\dA-F]+:[^:]*:[^:]*:([^:]+)/.exec(text) ?? []
  return printable(reason ?? text)
}

export const CLOSED_IN_HANDSHAKE = 'the server closed the connection during the TLS handshake'

export const CLOSED_AFTER_HANDSHAKE =
  'the server closed the connection right after the handshake, as one does that demands another client certificate'

/** What a client certificate of the profile would mend is said with it. */
export function withHint(problem: string, { cert }: { readonly cert?: string | undefined }): string {
  const hint = cert === undefined && problem.endsWith('client certificate')
  return hint ? `${problem}, and the profile names none: set tls_client_certificate_id` : problem
}

export function unusableIdentity(error: unknown): string {
  return `the certificates of the profile cannot be used for TLS: ${opensslReason(error)}`
}

export interface Unverified {
  readonly host: string
  readonly peer: PeerCertificate
  /** Whether the profile names what it trusts. */
  readonly ownAnchor: boolean
}

/** Why the certificate of the server is not accepted. `code` is OpenSSL's, or that of a name that differs. */
export function verificationProblem(code: string, { host, peer, ownAnchor }: Unverified): string {
  const named = `the TLS certificate of the server (${subjectOf(peer)})`
  const anchor = ownAnchor ? 'the certificate that the profile trusts' : 'the public authorities'
  switch (code) {
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `${named} is not for ${host}: ${mismatchOf(host, peer)}`
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

/** Of a name that differs, a connection keeps the code alone. */
function mismatchOf(host: string, peer: PeerCertificate): string {
  const error: (Error & { readonly reason?: string }) | undefined = checkServerIdentity(host, peer)
  return printable(error?.reason ?? '')
}
