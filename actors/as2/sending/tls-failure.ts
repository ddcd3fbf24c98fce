import type { ClientRequest } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import { TLSSocket, type PeerCertificate } from 'node:tls'
import {
  CLOSED_IN_HANDSHAKE,
  handshakeProblem,
  unusableIdentity,
  verificationProblem,
  withHint,
} from '../connection-check/tls-words.ts'
import { codeOf } from '../connection-check/words.ts'
import type { TlsSettings } from '../profiles/tls-identity.ts'

/**
 * What fails in TLS is told as the check of a connection tells it: what OpenSSL says is a line of its log, which names no
 * certificate and nothing that could be done.
 */

/** A request over TLS. */
export function secureRequest(url: URL, tls: TlsSettings, options: RequestOptions): ClientRequest {
  try {
    // Connections are shared by those alone that show and check the same.
    return httpsRequest(url, { ...options, ...tls })
  } catch (thrown) {
    // OpenSSL looks at our own certificates before anything is sent.
    if (!/^ERR_(OSSL|SSL)_/.test(codeOf(thrown))) throw thrown
    throw told(unusableIdentity(thrown), thrown)
  }
}

/** To be called at once, when nothing has happened yet; answers how an error of the request is told. */
export function tlsWitness(request: ClientRequest, url: URL, tls: TlsSettings): (error: Error) => Error {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const met = { connected: false, secured: true, socket: null as TLSSocket | null }
  let peer: PeerCertificate | null = null
  request.once('socket', (socket) => {
    // One that is open already has been checked.
    if (!(socket instanceof TLSSocket) || !socket.connecting) return
    met.secured = false
    met.socket = socket
    socket.once('connect', () => (met.connected = true))
    socket.once('secureConnect', () => (met.secured = true))
    // When a certificate is refused the connection is gone, and the certificate with it: this comes before.
    socket.prependOnceListener('secure', () => (peer = socket.getPeerCertificate()))
  })
  return (error) => {
    const code = codeOf(error)
    const handshake = handshakeProblem(error)
    if (handshake !== null) return told(withHint(handshake, tls), error)
    if (met.secured || code === '') return error
    // A code, whatever its type says.
    const refused: unknown = met.socket?.authorizationError
    if (peer !== null && refused === code) {
      return told(verificationProblem(code, { host, peer, ownAnchor: tls.ca !== undefined }), error)
    }
    const isClosed = met.connected && (code === 'ECONNRESET' || code === 'EPIPE')
    return isClosed ? told(CLOSED_IN_HANDSHAKE, error) : error
  }
}

function told(words: string, cause: unknown): Error {
  return new Error(`${words.slice(0, 1).toUpperCase()}${words.slice(1)}`, { cause })
}
