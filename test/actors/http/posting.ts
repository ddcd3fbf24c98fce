import { hash, randomUUIDv7 } from 'node:crypto'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { JOURNAL_LIMIT_BYTES, journaled, type NewStage } from '../../../storage/exchange/stages.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { accept, type NewMessage } from '../../../storage/sql/accept.ts'
import { startApi, type TestApi } from '../../support/api.ts'
import { until } from '../../support/processes.ts'

export interface Delivery {
  readonly state: string
  readonly attempts: number
  readonly last_error: string | null
  readonly next_attempt_at: string | null
}

const LIMIT_MS = 120_000

/** Instances of `http-poster` in their threads, and messages for them. */
export interface Posting {
  readonly api: TestApi
  /** Configures an instance that takes every message of the source `<name>-source`, and starts it. */
  readonly start: (name: string, settings: object) => Promise<void>
  /** Accepts a message of that source; answers its id. */
  readonly accept: (name: string, bytes: Buffer, changes?: Partial<NewMessage>) => Promise<string>
  readonly delivery: (messageId: string) => Promise<Delivery>
  /** Waits until the delivery is in one of these states. */
  readonly untilIn: (name: string, messageId: string, ...states: readonly string[]) => Promise<Delivery>
}

/** Repeats come soon, so that tests need not wait. */
export const SOON = { retry_initial_seconds: 1, retry_max_seconds: 1 }

export async function startPosting(t: Test): Promise<Posting> {
  const api = await startApi(t)
  const { client, database, supervisor } = api
  await client.create('/organizations', { name: 'acme' })
  const store = await LocalStore.open(t.testdirName)

  const delivery = async (messageId: string): Promise<Delivery> => {
    const { data } = await client.get(`/messages/${messageId}`)
    const [first] = data['deliveries'] as readonly Delivery[]
    if (first === undefined) throw new Error(`The message ${messageId} has no delivery`)
    return first
  }

  return {
    api,
    delivery,
    start: async (name, settings) => {
      await client.create('/plugins/configs?type=file-poller', {
        name: `${name}-source`,
        enabled: false,
        base_directory: 'in',
        processed_directory: 'done',
        from: 'acme',
      })
      await client.create('/plugins/configs?type=http-poster', { name, ...settings })
      await client.create('/routes', { source_plugin: `${name}-source`, target_plugin: name })
      const answer = await client.post(`/services/http-poster/${name}/start`)
      if (answer.status !== 200) throw new Error(answer.text)
    },
    accept: async (name, bytes, changes = {}) => {
      const id = randomUUIDv7()
      const message: NewMessage = {
        id,
        direction: 'outbound',
        source: `${name}-source`,
        from: 'acme',
        to: 'globex',
        fileName: 'invoice.edi',
        contentType: 'application/edifact',
        sizeBytes: bytes.length,
        stages: [await stageOf(store, id, bytes)],
        protocols: {},
        sourceReference: null,
        duplicateKey: null,
        refusal: null,
        dispatch: true,
        ...changes,
      }
      await accept(database.pool, [message])
      supervisor.announce(name, 1)
      return id
    },
    untilIn: async (name, messageId, ...states) => {
      let last: Delivery | undefined
      await until(async () => {
        // No clock runs here that would tell of retries that are due.
        supervisor.announce(name, 1)
        last = await delivery(messageId)
        return states.includes(last.state)
      }, LIMIT_MS).catch((error: unknown) => {
        throw new Error(`${String(error)}: ${JSON.stringify(last)}`)
      })
      if (last === undefined) throw new Error('Nothing was looked at')
      return last
    },
  }
}

/** Small ones in the journal, large ones in the store, as a source does it. */
async function stageOf(store: LocalStore, id: string, bytes: Buffer): Promise<NewStage> {
  if (bytes.length <= JOURNAL_LIMIT_BYTES) return journaled('unpacked', bytes)
  await store.put(id, 'unpacked', Readable.from([bytes], { objectMode: false }))
  return { stage: 'unpacked', bytes: null, size_bytes: bytes.length, sha256: hash('sha256', bytes, 'hex') }
}
