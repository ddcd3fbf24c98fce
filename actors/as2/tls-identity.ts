import { createPrivateKey } from 'node:crypto'
import { privateKeyContext } from '../../storage/certificates/secrets.ts'
import type { Storage } from '../../storage/access.ts'
import { certificateById } from '../../storage/sql/partnership.ts'

/** The certificate and key of the store that a server shows, as node:tls takes them. */
export async function tlsIdentity(
  storage: Storage,
  certificateId: number,
): Promise<{ cert: string; key: string }> {
  const row = await certificateById(storage.pool, certificateId)
  if (row === null) throw new Error(`The TLS certificate ${certificateId} is not stored`)
  if (row.private_key === null) throw new Error(`The TLS certificate ${certificateId} has no private key`)
  const key = storage.secrets.open(row.private_key, privateKeyContext(row.fingerprint))
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${row.der}\n-----END CERTIFICATE-----\n`,
    key: createPrivateKey({ key, format: 'der', type: 'pkcs8' }).export({
      format: 'pem',
      type: 'pkcs8',
    }) as string,
  }
}
