import { importContext, privateKeyContext } from '../certificates/secrets.ts'
import { clientSecretContext } from '../identity/secrets.ts'
import { pluginContext } from '../plugins/secrets.ts'
import { remoteProfileContext } from '../profiles/secrets.ts'

/** A column of sealed values. */
export interface SealedColumn {
  readonly table: string
  readonly column: string
  /** The column that names the record, and that the value is bound to. */
  readonly key: string
  readonly contextOf: (key: string) => string
}

/**
 * Every column that holds sealed values. A rotation of the secret key seals all of them anew, so a column that is
 * missing here would be lost; a migration gives each the trigger `sealed_with_present_key`.
 */
export const SEALED_COLUMNS: readonly SealedColumn[] = [
  {
    table: 'certificate',
    column: 'private_key',
    key: 'fingerprint_sha256',
    contextOf: privateKeyContext,
  },
  {
    table: 'certificate_import',
    column: 'material',
    key: 'token_hash',
    // PostgreSQL writes bytes as \\x and hexadecimal digits.
    contextOf: (key) => importContext(Buffer.from(key.slice(2), 'hex')),
  },
  {
    table: 'as2_remote_profile',
    column: 'secrets',
    key: 'business_partner_id',
    contextOf: (key) => remoteProfileContext(Number(key)),
  },
  { table: 'plugin_configuration', column: 'secrets', key: 'name', contextOf: pluginContext },
  { table: 'oidc_provider', column: 'client_secret', key: 'issuer_url', contextOf: clientSecretContext },
]
