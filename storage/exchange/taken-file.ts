import { randomUUIDv7 } from 'node:crypto'
import { Readable } from 'node:stream'
import { crashPoint } from '../../runtime/crash-point.ts'
import type { IncomingFile, ReceivedFile } from '../../runtime/endpoint/endpoint.ts'
import type { PayloadStore } from '../payloads/store.ts'
import { contentTypeFor, endingOf } from './content-type.ts'
import { recordedFileName } from './file-name.ts'
import { JOURNAL_LIMIT_BYTES, journaled, type NewStage } from './stages.ts'

/** A file that was taken in for a message which is not committed yet. */
export class TakenFile implements ReceivedFile {
  readonly messageId: string
  readonly fileName: string
  readonly contentType: string
  readonly stage: NewStage
  readonly #store: PayloadStore
  #kept = false

  private constructor(
    file: { readonly messageId: string; readonly fileName: string; readonly contentType: string },
    stage: NewStage,
    store: PayloadStore,
  ) {
    this.messageId = file.messageId
    this.fileName = file.fileName
    this.contentType = file.contentType
    this.stage = stage
    this.#store = store
  }

  /** Reads the file to its end. When that fails, nothing of it stays. */
  static async take(store: PayloadStore, file: IncomingFile): Promise<TakenFile> {
    const messageId = randomUUIDv7()
    const contentType = contentTypeFor(file.contentType, file.fileName)
    const fileName = recordedFileName(file.fileName, messageId + endingOf(contentType))
    const stage = await readIn(store, messageId, file.bytes)
    return new TakenFile({ messageId, fileName, contentType }, stage, store)
  }

  /** From now on it belongs to a message, or may do so. */
  keep(): void {
    this.#kept = true
  }

  /** Removes what was stored, unless it is kept. */
  async discard(): Promise<void> {
    if (!this.#kept && this.stage.bytes === null) await this.#store.delete(this.messageId)
  }
}

/** A small file is held, to travel with its message; of a larger one never more than that is in memory. */
async function readIn(store: PayloadStore, messageId: string, bytes: Readable): Promise<NewStage> {
  const rest = bytes[Symbol.asyncIterator]() as AsyncIterableIterator<Buffer>
  const held: Buffer[] = []
  let heldBytes = 0
  while (heldBytes <= JOURNAL_LIMIT_BYTES) {
    const next = await rest.next()
    if (next.done === true) return journaled('unpacked', Buffer.concat(held, heldBytes))
    held.push(next.value)
    heldBytes += next.value.length
  }
  try {
    const whole = Readable.from(inTurn(held, rest), { objectMode: false })
    const { sizeBytes, sha256 } = await store.put(messageId, 'unpacked', whole)
    crashPoint('api.file-stored')
    return { stage: 'unpacked', bytes: null, size_bytes: sizeBytes, sha256 }
  } catch (error) {
    // It may lie at its place already, and only the last flush have failed.
    await store.delete(messageId).catch(() => undefined)
    throw error
  }
}

async function* inTurn(held: Buffer[], rest: AsyncIterableIterator<Buffer>): AsyncGenerator<Buffer> {
  for (let next = held.shift(); next !== undefined; next = held.shift()) yield next
  yield* rest
}
