import { createHash, randomBytes } from 'node:crypto'
import type { Pool } from 'pg'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { execute, query } from '../postgres/pool.ts'
import type { RecordEvents } from '../records/record-events.ts'
import type { SecretBox } from '../secrets/secret-box.ts'
import { CertificateEntity, type Certificate } from './certificate.ts'
import { certificateEvents, namedValues, subjectOf } from './events.ts'
import { certificateValues, refuseStored, storedIds } from './new-certificate.ts'
import { keyOf, type FoundMaterial } from './reading/material.ts'
import { openMaterial, sealMaterial, type KeptCertificate } from './kept-material.ts'

export interface ImportsOptions {
  readonly orm: MikroORM
  readonly box: SecretBox
  readonly audit: AuditLog
}

/** What an upload held and nobody has chosen from yet. */
export interface KeptUpload {
  /** Works once, for ten minutes. */
  readonly token: string
  readonly expiresAt: Date
  /** By certificate: the id of the stored record of the same one, or null. */
  readonly existingIds: readonly (number | null)[]
}

export interface ChosenCertificate {
  readonly index: number
  readonly description: string
}

const LIFETIME_MINUTES = 10
const TOKEN_BYTES = 32
/** What all uploads that wait for a choice may take, so that uploading alone never fills the database. */
const MOST_WAITING = 200
const MOST_WAITING_BYTES = 64 * 1024 * 1024

/**
 * Uploads that wait for a choice (specification, 3.7). They are in the database, so that the choice may come to
 * another node or after a restart; their keys are sealed, and of the token only the hash is stored.
 */
export class CertificateImports {
  readonly #orm: MikroORM
  readonly #box: SecretBox
  readonly #events: RecordEvents

  constructor({ orm, box, audit }: ImportsOptions) {
    this.#orm = orm
    this.#box = box
    this.#events = certificateEvents(audit)
  }

  /** Keeps the certificates and the keys that belong to them. Throws a TOO_BUSY when too many uploads wait. */
  async keep(material: FoundMaterial): Promise<KeptUpload> {
    const fingerprints = material.certificates.map(({ facts }) => facts.fingerprint_sha256)
    const ids = await storedIds(this.#orm.em.fork(), fingerprints)
    const token = randomBytes(TOKEN_BYTES).toString('base64url')
    const hash = hashOf(token)
    const certificates = material.certificates.map((found) => ({ ...found, key: keyOf(material, found) }))
    const sealed = sealMaterial(certificates, this.#box, hash)
    const pool = await this.#orm.em.getConnection().getNativeClient()
    await purge(pool)
    const [kept] = await query<{ expires_at: Date }>(
      pool,
      `insert into certificate_import (token_hash, material, expires_at)
       select $1, $2, now() + make_interval(mins => $3)
       where (select count(*) < $4 and coalesce(sum(octet_length(material)), 0) + octet_length($2) <= $5
              from certificate_import)
       returning expires_at`,
      [hash, sealed, LIFETIME_MINUTES, MOST_WAITING, MOST_WAITING_BYTES],
    )
    if (kept === undefined) {
      throw new WaybillError(
        'TOO_BUSY',
        'Too many uploads wait for their import; repeat this one in some minutes',
      )
    }
    const existingIds = fingerprints.map((fingerprint) => ids.get(fingerprint) ?? null)
    return { token, expiresAt: kept.expires_at, existingIds }
  }

  /**
   * Stores the chosen certificates with their keys, all or none, and answers them in the order of the choice. The
   * token works once: what is refused leaves it as it is.
   */
  async import(
    token: string,
    chosen: readonly ChosenCertificate[],
    caller: Caller,
  ): Promise<readonly Certificate[]> {
    return this.#orm.em.fork().transactional(async (em) => {
      const hash = hashOf(token)
      const kept = await this.#locked(em, hash)
      const picked = chosen.map(({ index, description }) => ({ found: pick(kept, index), description }))
      // Others who store certificates wait, so that none comes between the check and the insert. Whoever saves a
      // profile does not.
      await em.execute('lock table certificate in share row exclusive mode')
      await refuseStored(
        em,
        picked.map(({ found }) => found.facts.fingerprint_sha256),
      )
      const stored = picked.map(({ found, description }) =>
        em.create(CertificateEntity, certificateValues({ found, key: found.key, description }, this.#box)),
      )
      await em.flush()
      await em.execute('delete from certificate_import where token_hash = ?', [hash])
      for (const each of stored) {
        await this.#events.created({ em, caller }, subjectOf(each), namedValues(each))
      }
      return stored
    })
  }

  async #locked(em: EntityManager, hash: Buffer): Promise<readonly KeptCertificate[]> {
    const [row] = await em.execute<{ material: string }[]>(
      'select material from certificate_import where token_hash = ? and expires_at > now() for update',
      [hash],
    )
    if (row === undefined) {
      throw validationFailure({
        import_token: `is unknown, was used already or is older than ${LIFETIME_MINUTES} minutes: upload the file again`,
      })
    }
    return openMaterial(row.material, this.#box, hash)
  }
}

/** How often the uploads are removed that nobody has chosen from in time: their keys should not lie about. */
const PURGE_MS = 60_000

/** A round of `Rounds`. */
export async function importsRound(pool: Pool): Promise<number> {
  await purge(pool)
  return PURGE_MS
}

/** Removes what nobody has chosen from in time; answers how many uploads. */
function purge(pool: Pool): Promise<number> {
  return execute(pool, 'delete from certificate_import where expires_at <= now()')
}

function pick(kept: readonly KeptCertificate[], index: number): KeptCertificate {
  const found = kept[index]
  if (found !== undefined) return found
  const known =
    kept.length === 0 ? 'the upload held no certificate' : `the upload held 0 to ${kept.length - 1}`
  throw validationFailure({ certificates: `there is no certificate ${index}: ${known}` })
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
