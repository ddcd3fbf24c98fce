import { hash, randomUUIDv7 } from 'node:crypto'
import { Readable } from 'node:stream'
import { crashPoint } from '../../runtime/crash-point.ts'
import type { IncomingFile, ReceivedFile } from '../../runtime/endpoint/endpoint.ts'
import { firstName } from '../../runtime/mime/attachment.ts'
import { formatMultipart, relatedContentType } from '../../runtime/mime/multipart-format.ts'
import type { PayloadStore } from '../payloads/store.ts'
import { StorageError } from '../storage-error.ts'
import { contentTypeFor, endingOf } from './content-type.ts'
import { distinctNames, recordedFileName } from './file-name.ts'
import { JOURNAL_LIMIT_BYTES, journaled, type NewStage } from './stages.ts'

/** A file, or several as one, that was taken in for a message which is not committed yet. */
export class TakenFile implements ReceivedFile {
  readonly messageId: string
  readonly fileName: string
  readonly contentType: string
  readonly stage: NewStage
  readonly #store: PayloadStore
  /** Null: it came without a name, and `fileName` is made up. */
  readonly #givenName: string | null
  #kept = false

  private constructor(
    file: { readonly messageId: string; readonly givenName: string | null; readonly contentType: string },
    stage: NewStage,
    store: PayloadStore,
  ) {
    this.messageId = file.messageId
    this.fileName = file.givenName ?? file.messageId + endingOf(file.contentType)
    this.contentType = file.contentType
    this.stage = stage
    this.#store = store
    this.#givenName = file.givenName
  }

  /** Reads the file to its end. When that fails, nothing of it stays. */
  static async take(store: PayloadStore, file: IncomingFile): Promise<TakenFile> {
    const messageId = randomUUIDv7()
    const contentType = contentTypeFor(file.contentType, file.fileName)
    const recorded = recordedFileName(file.fileName, '')
    const stage = await readIn(store, messageId, file.bytes)
    return new TakenFile({ messageId, givenName: recorded || null, contentType }, stage, store)
  }

  /**
   * Several files as the payload of one message (RFC 6362), stored beside them: they are discarded as they would be
   * otherwise. The same files in the same order make the same payload, by which a repeat of a request is known.
   */
  static async combine(store: PayloadStore, files: readonly TakenFile[]): Promise<TakenFile> {
    const messageId = randomUUIDv7()
    // Receivers may refuse a message in which two files have one name.
    const names = distinctNames(files.map((file) => file.#givenName))
    const parts = files.map((file, index) => ({
      fileName: names[index] ?? null,
      contentType: file.contentType,
      open: () => file.#open(),
    }))
    const boundary = boundaryOf(files.map((file) => [file.#givenName, file.contentType, file.stage.sha256]))
    const body = Readable.from(formatMultipart(boundary, parts), { objectMode: false })
    const stage = await readIn(store, messageId, body)
    const contentType = relatedContentType(boundary, files[0]?.contentType ?? '')
    return new TakenFile({ messageId, givenName: firstName(parts), contentType }, stage, store)
  }

  async #open(): Promise<AsyncIterable<Buffer>> {
    const { bytes, sha256, stage } = this.stage
    if (bytes !== null) return Readable.from([bytes], { objectMode: false })
    const stored = await this.#store.open(this.messageId, stage, { sha256 })
    if (stored === undefined) throw new StorageError(`The file ${this.messageId} is stored and not there`)
    return stored
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

/** It occurs in no file: who writes one that holds it has changed what it is made of. */
function boundaryOf(files: readonly (readonly (string | null)[])[]): string {
  return `=_${hash('sha256', JSON.stringify(files), 'hex').slice(0, 32)}`
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
