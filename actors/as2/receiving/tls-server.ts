import { randomBytes } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { createServer, type Server, type ServerOptions } from 'node:https'
import type { Socket } from 'node:net'
import { createSecureContext, type SecureContext, type TLSSocket } from 'node:tls'
import type { Log } from '../../../runtime/log.ts'
import type { Storage } from '../../../storage/access.ts'
import { certificatesById } from '../../../storage/sql/certificate-row.ts'
import { LEAST_TLS_VERSION } from '../sending/http-client.ts'
import type { As2ReceiverSettings } from '../settings.ts'
import { TlsRefusals } from './tls-refusals.ts'
import { pemOf, tlsIdentity } from '../profiles/tls-identity.ts'

const HANDSHAKE_TIMEOUT_MS = 30_000

/** A partner's own certificate, or an authority below its root, is trusted without who has issued it. */
const ANCHORS_AS_THEY_STAND = { allowPartialTrustChain: true } as const

type TlsServerSettings = Pick<
  As2ReceiverSettings,
  'tls_certificate_id' | 'tls_client_certificate' | 'tls_client_ca_certificate_ids'
>

/** What a receiver shows and asks for in TLS; null for one that speaks plain HTTP. */
export async function tlsServerOptions(
  storage: Storage,
  settings: TlsServerSettings,
): Promise<ServerOptions | null> {
  const { tls_certificate_id, tls_client_certificate, tls_client_ca_certificate_ids } = settings
  if (tls_certificate_id === null) return null
  const shown = {
    minVersion: LEAST_TLS_VERSION,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    ...(await tlsIdentity(storage, tls_certificate_id)),
  } as const
  if (tls_client_certificate === 'none') return shown
  const trusted = await certificatesById(storage.pool, tls_client_ca_certificate_ids)
  if (trusted.length === 0)
    throw new Error('None of the certificates that clients are checked against is stored')
  return {
    ...shown,
    ca: trusted.map(pemOf),
    ...ANCHORS_AS_THEY_STAND,
    requestCert: true,
    rejectUnauthorized: tls_client_certificate === 'required',
  }
}

export function makeTlsServer(
  options: ServerOptions,
  { listener, log }: { readonly listener: RequestListener; readonly log: Log },
): Server {
  const server = createServer(options, listener)
  if (options.allowPartialTrustChain === true) setContext(server, options)
  const refusals = new TlsRefusals(log)
  // Asked for once, it is known also when the connection is gone.
  server.on('connection', (connection: Socket) => void connection.remoteAddress)
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: TLSSocket) =>
    refusals.tell(socket, error),
  )
  // Where a client certificate may be missing, one that is shown must still be trusted.
  server.on('secureConnection', (socket: TLSSocket) => {
    if (options.requestCert !== true || socket.authorized) return
    if (socket.getPeerX509Certificate() === undefined) return
    refusals.tell(socket, null)
    socket.destroy()
  })
  return server
}

/**
 * A server of Node.js makes a context of its options, but leaves `allowPartialTrustChain` out, which a context of its own
 * takes. SNICallback, the one public place for such a context, is not called for clients that name no server, as those do
 * that know an address alone.
 */
function setContext(server: Server & { _sharedCreds?: SecureContext }, options: ServerOptions): void {
  server._sharedCreds = createSecureContext({
    ...options,
    // The two that the server adds itself; without the second no session of a client with a certificate is resumed.
    honorCipherOrder: true,
    sessionIdContext: randomBytes(16).toString('hex'),
  })
}
