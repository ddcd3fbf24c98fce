import type { SecretBox } from '../secrets/secret-box.ts'
import type { CertificateFacts } from './reading/facts.ts'
import { importContext } from './secrets.ts'

/** A certificate of an upload that waits for a choice, with the key that belongs to it (PKCS#8 DER). */
export interface KeptCertificate {
  readonly der: Uint8Array
  readonly facts: CertificateFacts
  readonly key: Uint8Array | null
}

interface Written {
  readonly der: string
  readonly facts: Omit<CertificateFacts, 'not_before' | 'not_after'>
  /** Milliseconds. */
  readonly validity: readonly [number, number]
  readonly key: string | null
}

/** All of it sealed, bound to the hash of the token. A key without certificate cannot be imported and is not kept. */
export function sealMaterial(
  certificates: readonly KeptCertificate[],
  box: SecretBox,
  tokenHash: Buffer,
): string {
  const written = certificates.map(({ der, facts: { not_before, not_after, ...facts }, key }): Written => {
    return {
      der: Buffer.from(der).toString('base64'),
      facts,
      validity: [not_before.getTime(), not_after.getTime()],
      key: key === null ? null : Buffer.from(key).toString('base64'),
    }
  })
  return box.seal(JSON.stringify(written), importContext(tokenHash))
}

export function openMaterial(sealed: string, box: SecretBox, tokenHash: Buffer): readonly KeptCertificate[] {
  const written = JSON.parse(box.openText(sealed, importContext(tokenHash))) as readonly Written[]
  return written.map(({ der, facts, validity, key }) => {
    const [notBefore, notAfter] = validity
    return {
      der: Buffer.from(der, 'base64'),
      facts: { ...facts, not_before: new Date(notBefore), not_after: new Date(notAfter) },
      key: key === null ? null : Buffer.from(key, 'base64'),
    }
  })
}
