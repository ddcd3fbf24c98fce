import { createPrivateKey } from 'node:crypto'
import { privateKeyContext } from '../../storage/certificates/secrets.ts'
import type { Storage } from '../../storage/access.ts'
import type { SecretBox } from '../../storage/secrets/secret-box.ts'
import { certificateById, type CertificateRow } from '../../storage/sql/partnership.ts'

/** A certificate with its key as node:tls takes them. */
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
}

/** The certificate and key of the store that a server shows. */
export async function tlsIdentity(storage: Storage, certificateId: number): Promise<TlsIdentity> {
  const row = await certificateById(storage.pool, certificateId)
  if (row === null) throw new Error(`The TLS certificate ${certificateId} is not stored`)
  return identityOf(row, storage.secrets)
}

/** What the profile of a partner asks of TLS. */
export function tlsSettings(
  profile: { readonly tls_client: CertificateRow | null; readonly tls_ca: CertificateRow | null },
  secrets: SecretBox,
): TlsSettings {
  const { tls_client, tls_ca } = profile
  return {
    ...(tls_client === null ? {} : identityOf(tls_client, secrets)),
    ...(tls_ca === null ? {} : { ca: pemOf(tls_ca), allowPartialTrustChain: true as const }),
  }
}

function identityOf(row: CertificateRow, secrets: SecretBox): TlsIdentity {
  if (row.private_key === null) throw new Error(`The TLS certificate ${row.id} has no private key`)
  const key = secrets.open(row.private_key, privateKeyContext(row.fingerprint))
  const exported = createPrivateKey({ key, format: 'der', type: 'pkcs8' }).export({
    format: 'pem',
    type: 'pkcs8',
  })
  return { cert: pemOf(row), key: exported.toString() }
}

function pemOf({ der }: CertificateRow): string {
  return `-----BEGIN CERTIFICATE-----\n${der}\n-----END CERTIFICATE-----\n`
}
