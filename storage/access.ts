import type { Pool } from 'pg'
import type { Log } from '../runtime/log.ts'
import { LocalStore } from './payloads/local-store.ts'
import type { PayloadStore } from './payloads/store.ts'
import { openPool } from './postgres/pool.ts'
import { SecretBox } from './secrets/secret-box.ts'

/** What a thread needs to reach records and payloads: plain values, handed over when it is spawned. */
export interface ProcessFacts {
  readonly databaseUrl: string
  readonly nodeId: string
  readonly secretKey: string
  /** Absolute. */
  readonly payloadDirectory: string
  /** As the User-Agent and Server headers say it: `Waybill/0.1.0`. */
  readonly product: string
}

export interface Storage {
  readonly pool: Pool
  readonly payloads: PayloadStore
  readonly secrets: SecretBox
  readonly close: () => Promise<void>
}

/** Opens records and payloads for one thread, with a connection pool of its own and without the ORM. */
export async function openStorage(
  facts: ProcessFacts,
  options: { readonly log: Log; readonly name: string; readonly poolSize: number },
): Promise<Storage> {
  const { log, name, poolSize } = options
  const payloads = await LocalStore.open(facts.payloadDirectory)
  const pool = openPool({ url: facts.databaseUrl, size: poolSize, applicationName: `waybill ${name}`, log })
  return {
    pool,
    payloads,
    secrets: new SecretBox(facts.secretKey),
    close: () => pool.end(),
  }
}
