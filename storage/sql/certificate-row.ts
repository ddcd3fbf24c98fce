import { query, type Queryable } from '../postgres/pool.ts'

/** A certificate as a protocol uses it. `private_key` is sealed PKCS#8 DER, or null. */
export interface CertificateRow {
  readonly id: number
  readonly common_name: string
  readonly fingerprint: string
  /** Base64 of the DER. */
  readonly der: string
  readonly private_key: string | null
  /** RFC 3339. */
  readonly not_before: string
  readonly not_after: string
}

/** A certificate that is shown in TLS, where those of its issuers go with it. */
export interface TlsCertificateRow extends CertificateRow {
  /** Stored authorities that may be its issuers, and theirs, by their names alone. No roots are among them. */
  readonly issuers: readonly { readonly fingerprint: string; readonly der: string }[]
}

const FIELDS = `'id', c.id, 'common_name', c.common_name, 'fingerprint', c.fingerprint_sha256,
    'der', encode(c.der, 'base64'), 'private_key', c.private_key, 'not_before', c.not_before, 'not_after', c.not_after`

/** SQL of a CertificateRow as JSON, or null; `column` holds the id. */
export function certificateJson(column: string): string {
  return `(
  select json_build_object(${FIELDS}) from certificate c where c.id = ${column})`
}

/** More of them are between no certificate and its root. */
const MAX_ISSUERS = 8

/** SQL of a TlsCertificateRow as JSON, or null. */
export function tlsCertificateJson(column: string): string {
  return `(
  select json_build_object(${FIELDS}, 'issuers', (
    with recursive above as (
      select i.id, i.issuer, 1 as height from certificate i
      where i.is_ca and i.subject = c.issuer and i.issuer <> i.subject
      union
      select i.id, i.issuer, above.height + 1 from above join certificate i
        on i.is_ca and i.subject = above.issuer and i.issuer <> i.subject
      where above.height < ${MAX_ISSUERS}
    )
    select coalesce(json_agg(json_build_object('fingerprint', i.fingerprint_sha256, 'der', encode(i.der, 'base64'))
      order by i.id), '[]')
    from certificate i where i.id in (select id from above)))
  from certificate c where c.id = ${column})`
}

export async function tlsCertificateById(on: Queryable, id: number): Promise<TlsCertificateRow | null> {
  const [row] = await query<{ certificate: TlsCertificateRow | null }>(
    on,
    `select ${tlsCertificateJson('$1::integer')} as certificate`,
    [id],
  )
  return row?.certificate ?? null
}

/** The DER of the certificate with a fingerprint (SHA-256, lower case hexadecimal); null where it is not stored. */
export async function certificateByFingerprint(on: Queryable, fingerprint: string): Promise<Buffer | null> {
  const [row] = await query<{ der: Buffer }>(
    on,
    'select der from certificate where fingerprint_sha256 = $1',
    [fingerprint],
    'certificate-by-fingerprint',
  )
  return row?.der ?? null
}

/** Those of the ids that are stored, in the order of their ids. */
export async function certificatesById(
  on: Queryable,
  ids: readonly number[],
): Promise<readonly CertificateRow[]> {
  const rows = await query<{ certificate: CertificateRow }>(
    on,
    `select ${certificateJson('wanted.id')} as certificate
     from certificate wanted where wanted.id = any($1) order by wanted.id`,
    [ids],
  )
  return rows.map(({ certificate }) => certificate)
}
