import { createPrivateKey, type KeyObject } from 'node:crypto'
import { remoteProfileContext } from '../../../storage/profiles/secrets.ts'
import { privateKeyContext } from '../../../storage/certificates/secrets.ts'
import type { SecretBox } from '../../../storage/secrets/secret-box.ts'
import type { CertificateRow } from '../../../storage/sql/certificate-row.ts'
import type { PartnershipRow } from '../../../storage/sql/partnership.ts'
import { tlsSettings, type TlsSettings } from './tls-identity.ts'

/** A certificate of ours with its key. */
export interface KeyPair {
  readonly certificate: Buffer
  readonly privateKey: KeyObject
}

/** What a remote profile keeps write-only. */
export interface RemoteSecrets {
  readonly http_basic_password: string
  readonly http_headers: readonly { readonly name: string; readonly value: string }[]
}

/** A pair of an organization and a partner with everything that the protocol needs, keys opened. */
export interface Partnership {
  readonly row: PartnershipRow
  readonly signing: KeyPair | null
  /** The present certificate first, then the one it replaces. */
  readonly decryption: readonly KeyPair[]
  readonly partnerEncryption: Buffer | null
  /** The certificates that may sign for the partner. */
  readonly signers: readonly Buffer[]
  readonly secrets: RemoteSecrets
  readonly tls: TlsSettings
}

/** Entries of a cache; one that is full begins anew. */
const MAX_KEPT = 1_000

/**
 * Opens partnerships for use. Keys stay open by the text they were sealed in, and certificates stay the same buffer,
 * by which the protocol knows them: a message does not pay for parsing. What is replaced has another text.
 */
export class Keyring {
  readonly #secrets: SecretBox
  readonly #keys = new Map<string, KeyPair>()
  readonly #certificates = new Map<string, Buffer>()
  readonly #tls = new Map<string, TlsSettings>()

  constructor(secrets: SecretBox) {
    this.#secrets = secrets
  }

  open(row: PartnershipRow): Partnership {
    return {
      row,
      signing: this.keyPair(row.signing),
      decryption: [this.keyPair(row.decryption), this.keyPair(row.previous_decryption)].filter(
        (pair) => pair !== null,
      ),
      partnerEncryption: this.#certificate(row.partner_encryption),
      signers: [
        this.#certificate(row.partner_signing),
        this.#certificate(row.previous_partner_signing),
      ].filter((der) => der !== null),
      secrets: openedSecrets(row, this.#secrets),
      tls: this.#tlsOf(row),
    }
  }

  #tlsOf(row: PartnershipRow): TlsSettings {
    const { tls_client, tls_ca, tls_verify_host_name } = row
    const key = JSON.stringify([
      tls_client?.private_key,
      tls_client?.fingerprint,
      tls_client?.issuers.map(({ fingerprint }) => fingerprint),
      tls_ca?.fingerprint,
      tls_verify_host_name,
    ])
    return this.#tls.get(key) ?? kept(this.#tls, key, tlsSettings(row, this.#secrets))
  }

  /** Null where there is no certificate, or no key to it. */
  keyPair(row: CertificateRow | null): KeyPair | null {
    if (row === null || row.private_key === null) return null
    const known = this.#keys.get(row.private_key)
    if (known !== undefined) return known
    const key = this.#secrets.open(row.private_key, privateKeyContext(row.fingerprint))
    const pair = {
      certificate: Buffer.from(row.der, 'base64'),
      privateKey: createPrivateKey({ key, format: 'der', type: 'pkcs8' }),
    }
    return kept(this.#keys, row.private_key, pair)
  }

  #certificate(row: CertificateRow | null): Buffer | null {
    if (row === null) return null
    return (
      this.#certificates.get(row.fingerprint) ??
      kept(this.#certificates, row.fingerprint, Buffer.from(row.der, 'base64'))
    )
  }
}

/** The write-only properties of a profile. */
export function openedSecrets(
  profile: Pick<PartnershipRow, 'partner_id' | 'secrets'>,
  box: SecretBox,
): RemoteSecrets {
  const text = box.openText(profile.secrets, remoteProfileContext(profile.partner_id))
  return JSON.parse(text) as RemoteSecrets
}

/** The headers of each request to a partner that its profile asks for beside those of AS2. */
export function profileHeaders(
  { http_basic_username: user }: Pick<PartnershipRow, 'http_basic_username'>,
  { http_basic_password: password, http_headers }: RemoteSecrets,
): [string, string][] {
  const headers = http_headers.map(({ name, value }): [string, string] => [name, value])
  if (user === '') return headers
  return [['Authorization', `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`], ...headers]
}

function kept<Value>(cache: Map<string, Value>, key: string, value: Value): Value {
  if (cache.size >= MAX_KEPT) cache.clear()
  cache.set(key, value)
  return value
}
