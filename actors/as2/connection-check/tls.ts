import { isIP, type Socket } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { DAY_MS } from '../../../storage/certificates/certificate.ts'
import { Problem, type Bounds, type Found } from './steps.ts'
import {
  CLOSED_AFTER_HANDSHAKE,
  CLOSED_IN_HANDSHAKE,
  handshakeProblem,
  subjectOf,
  unusableIdentity,
  verificationProblem,
  withHint,
} from './tls-words.ts'
import { dayOf } from './words.ts'
import { LEAST_TLS_VERSION } from '../sending/http-client.ts'
import type { TlsSettings } from '../profiles/tls-identity.ts'

/** The step of a connection check that makes the connection secure. */

/** What a TLS handshake has shown. */
export interface Secured {
  readonly socket: TLSSocket
  /**
   * False while it is open whether the server takes us: in TLS 1.3 it may refuse our certificate after our side of the
   * handshake is done. A session ticket says that it does.
   */
  readonly accepted: () => boolean
}

/** A TLS handshake as a sender makes it. The connection is its caller's to end. */
export async function secure(
  socket: Socket,
  { host, tls }: { readonly host: string; readonly tls: TlsSettings },
  bounds: Bounds,
): Promise<Found<Secured>> {
  const secured = await shakeHands(socket, { host, tls }, bounds)
  if (secured.socket.destroyed) throw refusedAfterwards(null, tls)
  const { detail, problem } = judged(secured.socket, host, tls)
  if (problem !== null) throw new Problem(problem)
  await untilAccepted(secured, tls, bounds)
  return { detail, value: secured }
}

function shakeHands(
  socket: Socket,
  { host, tls }: { readonly host: string; readonly tls: TlsSettings },
  bounds: Bounds,
): Promise<Secured> {
  return bounds.within<Secured>('the server does not answer the TLS handshake', (settle, fail) => {
    const over = begun(socket, host, tls)
    let [done, ticket] = [false, false]
    const refused = (error: unknown): void =>
      fail(done ? refusedAfterwards(error, tls) : refusedWithin(error, tls))
    over.on('error', refused)
    over.once('close', refused)
    over.once('session', () => (ticket = true))
    over.once('secureConnect', () => {
      done = true
      // Not at once: OpenSSL is still at it, and what is written meanwhile may not be sent.
      setImmediate(settle, { socket: over, accepted: () => ticket || over.getProtocol() !== 'TLSv1.3' })
    })
  })
}

/** OpenSSL looks at our own certificates before it says anything to the server. */
function begun(socket: Socket, host: string, tls: TlsSettings): TLSSocket {
  try {
    return connect({
      ...tls,
      socket,
      host,
      servername: isIP(host) === 0 ? host : '',
      minVersion: LEAST_TLS_VERSION,
      // Verified afterwards, where the certificate is at hand to be named; nothing is sent before.
      rejectUnauthorized: false,
    })
  } catch (error) {
    throw new Problem(unusableIdentity(error), { cause: error })
  }
}

/** How long a server that sends no session ticket may hold the check up. */
const GRACE_MS = 300

/** In TLS 1.3 waits for a sign that the server takes us, or for its refusal. Neither may come: then the next step tells. */
async function untilAccepted({ socket, accepted }: Secured, tls: TlsSettings, bounds: Bounds): Promise<void> {
  if (accepted()) return
  const patient = bounds.atMost(GRACE_MS)
  await patient
    .within<null>('', (settle, fail) => {
      // Not at once, as above.
      socket.once('session', () => setImmediate(settle, null))
      socket.once('error', (error) => fail(refusedAfterwards(error, tls)))
      socket.once('close', () => fail(refusedAfterwards(null, tls)))
    })
    .catch((error: unknown) => {
      if (!patient.isOver(error)) throw error
    })
}

function refusedWithin(error: unknown, tls: TlsSettings): Problem {
  return new Problem(withHint(handshakeProblem(error) ?? CLOSED_IN_HANDSHAKE, tls))
}

function refusedAfterwards(error: unknown, tls: TlsSettings): Problem {
  return new Problem(withHint(handshakeProblem(error) ?? CLOSED_AFTER_HANDSHAKE, tls))
}

function judged(socket: TLSSocket, host: string, tls: TlsSettings) {
  const peer = socket.getPeerCertificate()
  // Its type says Error; it is OpenSSL's code.
  const code: unknown = socket.authorizationError
  const daysLeft = Math.floor((Date.parse(peer.valid_to) - Date.now()) / DAY_MS)
  const detail = [
    socket.getProtocol() ?? 'TLS',
    socket.getCipher().standardName,
    `certificate ${subjectOf(peer)} until ${dayOf(peer.valid_to)} (${daysLeft} days left)`,
  ].join(', ')
  if (typeof code !== 'string') return { detail, problem: null }
  const problem = verificationProblem(code, { host, peer, ownAnchor: tls.ca !== undefined })
  return { detail, problem }
}
