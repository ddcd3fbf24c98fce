import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { SecureContext } from 'node:tls'
import { privateKeyContext } from '../../../storage/certificates/secrets.ts'
import type { Storage } from '../../../storage/access.ts'
import type { SecretBox } from '../../../storage/secrets/secret-box.ts'
import {
  tlsCertificateById,
  type CertificateRow,
  type TlsCertificateRow,
} from '../../../storage/sql/certificate-row.ts'
import type { PartnershipRow } from '../../../storage/sql/partnership.ts'

/** A certificate with its key as node:tls takes them; behind it those of its issuers that are stored. */
export interface TlsIdentity {
  readonly cert: string
  readonly key: string
}

/** What a connection to a partner shows and checks; nothing where the profile names nothing of its own. */
export interface TlsSettings extends Partial<TlsIdentity> {
  /** Takes the place of the public authorities. */
  readonly ca?: string
  /** A partner's own certificate, or an authority below the root, is an anchor as it stands. */
  readonly allowPartialTrustChain?: true
  /** Takes any name. */
  readonly checkServerIdentity?: () => undefined
  /** All of what is checked, made before; the rest then names it alone. */
  readonly secureContext?: SecureContext
  /** Means nothing to a client, but keeps its connections apart from those that are checked otherwise. */
  readonly sessionIdContext?: string
}

/** The certificate and key of the store that a server shows. */
export async function tlsIdentity(storage: Storage, certificateId: number): Promise<TlsIdentity> {
  const row = await tlsCertificateById(storage.pool, certificateId)
  if (row === null) throw new Error(`The TLS certificate ${certificateId} is not stored`)
  return identityOf(row, storage.secrets)
}

/** What the profile of a partner asks of TLS. */
export function tlsSettings(
  profile: Pick<PartnershipRow, 'tls_client' | 'tls_ca' | 'tls_verify_host_name'>,
  secrets: SecretBox,
): TlsSettings {
  const { tls_client, tls_ca, tls_verify_host_name } = profile
  return {
    ...(tls_client === null ? {} : identityOf(tls_client, secrets)),
    ...(tls_ca === null ? {} : { ca: pemOf(tls_ca), allowPartialTrustChain: true as const }),
    ...(tls_verify_host_name ? {} : ANY_HOST_NAME),
  }
}

const ANY_HOST_NAME = {
  checkServerIdentity: () => undefined,
  sessionIdContext: 'any host name',
} as const

function identityOf(row: TlsCertificateRow, secrets: SecretBox): TlsIdentity {
  if (row.private_key === null) throw new Error(`The TLS certificate ${row.id} has no private key`)
  const key = secrets.open(row.private_key, privateKeyContext(row.fingerprint))
  const exported = createPrivateKey({ key, format: 'der', type: 'pkcs8' }).export({
    format: 'pem',
    type: 'pkcs8',
  })
  return { cert: chainOf(row), key: exported.toString() }
}

/** The certificate, then each issuer that has signed the one before it (RFC 8446 §4.4.2). */
function chainOf(row: TlsCertificateRow): string {
  const chain: Pick<CertificateRow, 'der'>[] = [row]
  const left = row.issuers.map((issuer) => ({ issuer, certificate: readDer(issuer) }))
  let last = readDer(row)
  for (;;) {
    const at = left.findIndex(
      ({ certificate }) => last.checkIssued(certificate) && last.verify(certificate.publicKey),
    )
    const [next] = at < 0 ? [] : left.splice(at, 1)
    if (next === undefined) return chain.map(pemOf).join('')
    chain.push(next.issuer)
    last = next.certificate
  }
}

function readDer({ der }: Pick<CertificateRow, 'der'>): X509Certificate {
  return new X509Certificate(Buffer.from(der, 'base64'))
}

export function pemOf({ der }: Pick<CertificateRow, 'der'>): string {
  return `-----BEGIN CERTIFICATE-----\n${der}\n-----END CERTIFICATE-----\n`
}
