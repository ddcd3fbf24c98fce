import type { Pool } from 'pg'
import type { Log } from '../runtime/log.ts'
import { connectStore } from './payloads/connect.ts'
import { withEarlierStores } from './payloads/earlier-stores.ts'
import type { PayloadStore } from './payloads/store.ts'
import { openPool } from './postgres/pool.ts'
import { SecretBox } from './secrets/secret-box.ts'
import type { StorageSettings } from './settings/storage-settings.ts'

/** What a thread needs to reach records and payloads: plain values, handed over when it is spawned. */
export interface ProcessFacts {
  readonly databaseUrl: string
  readonly nodeId: string
  /** Another one at every start of the process. */
  readonly runId: string
  /** How long a claim of a delivery holds unless it is renewed. */
  readonly leaseSeconds: number
  readonly secretKey: string
  /** Where payloads are stored; tried out and prepared. */
  readonly storage: StorageSettings
  /** Where they were stored before, the latest first. */
  readonly earlierStorages: readonly StorageSettings[]
  /** As the User-Agent and Server headers say it: `Waybill/0.1.0`. */
  readonly product: string
  /** By which the service is known outside: the setting PUBLIC_URL. */
  readonly publicUrl: string
}

export interface Storage {
  readonly pool: Pool
  readonly payloads: PayloadStore
  readonly secrets: SecretBox
  readonly close: () => Promise<void>
}

/**
 * Opens records and payloads for one thread, with a connection pool of its own and without the ORM. Neither is asked: that
 * a disk is full or a server away when a thread starts is met where they are used, and waited for there.
 */
export async function openStorage(
  facts: ProcessFacts,
  options: { readonly log: Log; readonly name: string; readonly poolSize: number },
): Promise<Storage> {
  const { log, name, poolSize } = options
  const payloads = withEarlierStores(await connectStore(facts.storage), facts.earlierStorages)
  const pool = openPool({ url: facts.databaseUrl, size: poolSize, applicationName: `waybill ${name}`, log })
  return {
    pool,
    payloads,
    secrets: new SecretBox(facts.secretKey),
    close: async () => {
      payloads.close()
      await pool.end()
    },
  }
}
