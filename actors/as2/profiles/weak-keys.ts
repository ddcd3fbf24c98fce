import type { Pool } from 'pg'
import type { Log } from '../../../runtime/log.ts'
import { LEAST_SOUND_RSA_BITS, weakCertificatesInUse } from '../../../storage/certificates/weak-keys.ts'

/** Tells the log, as an instance starts, which certificates of profiles have keys that are too short to be trusted. */
export async function warnOfWeakKeys({
  pool,
  log,
}: {
  readonly pool: Pool
  readonly log: Log
}): Promise<void> {
  // A warning is no reason for an instance not to start.
  const weak = await weakCertificatesInUse(pool).catch((error: unknown) => {
    log.warn({ err: error }, 'cannot look for certificates with weak keys')
    return []
  })
  if (weak.length === 0) return
  const certificates = weak.map(
    ({ id, common_name, key_size }) => `${common_name} (id ${id}, ${key_size} bits)`,
  )
  log.warn({ certificates }, `AS2 profiles use RSA keys of less than ${LEAST_SOUND_RSA_BITS} bits`)
}
