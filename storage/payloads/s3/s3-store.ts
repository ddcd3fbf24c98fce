import { hash } from 'node:crypto'
import { pipeline as pass, type Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { PAYLOAD_STAGES, type PayloadStage } from '../../exchange/states.ts'
import type { Bucket } from './bucket.ts'
import { checkStore } from '../check.ts'
import { Verify } from '../digest.ts'
import { asStorageError } from '../failure.ts'
import { inParallel } from '../parallel.ts'
import {
  checkedMessageId,
  payloadName,
  type CheckStep,
  type OpenOptions,
  type PayloadItem,
  type PayloadStore,
  type StoreCheck,
  type StoredPayload,
} from '../store.ts'
import { s3Client } from './client.ts'
import { download } from './download.ts'
import { messageIdsIn, uploadOf, uploadsIn } from './listing.ts'
import { isMissing, isUploadMissing, S3 } from './problem.ts'
import { uploadStream } from './upload.ts'

/** Before every key. */
const PREFIX = 'messages/'
const PARALLEL_PUTS = 16
/** A larger one is sent in parts. */
const PART_BYTES = 8 * 1024 * 1024
/** Each check is three requests that are paid for. */
const CHECKED_FOR_MS = 30_000

/** Stages as objects `messages/<message id>/<stage>` of one bucket. */
export class S3Store implements PayloadStore {
  readonly place: string
  readonly earlierPlaces = []
  readonly checkedForMs = CHECKED_FOR_MS
  readonly #client: S3Client
  readonly #bucket: string

  private constructor(storage: Bucket) {
    const { storage_s3_bucket: bucket, storage_s3_endpoint: endpoint } = storage
    this.#client = s3Client(storage)
    this.#bucket = bucket
    this.place = `the bucket ${bucket}${endpoint === '' ? '' : ` at ${endpoint}`}`
  }

  /** The store of these settings, asking nobody. */
  static at(storage: Bucket): S3Store {
    return new S3Store(storage)
  }

  /** Throws a StorageError unless the bucket is there and may be listed: who may not list is not told what is missing. */
  async reach(): Promise<void> {
    await asStorageError(`Payloads cannot be stored in ${this.place}`, S3, async () => {
      await this.#client.send(new ListObjectsV2Command({ Bucket: this.#bucket, Prefix: PREFIX, MaxKeys: 1 }))
    })
  }

  async put(messageId: string, stage: PayloadStage, source: Readable | Buffer): Promise<StoredPayload> {
    const Key = keyOf(messageId, stage)
    return asStorageError(`The payload ${messageId}/${stage} cannot be stored`, S3, async () => {
      const to = { Bucket: this.#bucket, Key }
      if (!Buffer.isBuffer(source) || source.length > PART_BYTES)
        return uploadStream(this.#client, to, source, PART_BYTES)
      await this.#client.send(new PutObjectCommand({ ...to, Body: source }))
      return { sizeBytes: source.length, sha256: hash('sha256', source, 'hex') }
    })
  }

  async putMany(items: readonly PayloadItem[], signal?: AbortSignal): Promise<void> {
    await asStorageError(`${items.length} payloads cannot be stored`, S3, () =>
      inParallel(PARALLEL_PUTS, items, async ({ messageId, stage, bytes }) => {
        const put = new PutObjectCommand({
          Bucket: this.#bucket,
          Key: keyOf(messageId, stage),
          Body: bytes,
        })
        await this.#client.send(put, signal === undefined ? {} : { abortSignal: signal })
      }),
    )
  }

  async open(
    messageId: string,
    stage: PayloadStage,
    options: OpenOptions = {},
  ): Promise<Readable | undefined> {
    const Key = keyOf(messageId, stage)
    const what = `The payload ${messageId}/${stage}`
    return asStorageError(`${what} cannot be read`, S3, async () => {
      const bytes = await download(this.#client, { Bucket: this.#bucket, Key }).catch(unlessMissing)
      if (bytes === undefined) return undefined
      // The reader of the second stream sees the errors of the first.
      return pass(bytes, new Verify({ what, sha256: options.sha256, reading: S3 }), () => undefined)
    })
  }

  /** One request a stage: deleting many at once needs a digest that not every service of this kind takes. */
  delete(messageId: string): Promise<void> {
    return this.#delete(messageId, PAYLOAD_STAGES)
  }

  /** The probe is one stage alone, and so is what is deleted. */
  check(began?: (step: CheckStep) => void): Promise<StoreCheck> {
    return checkStore(this, began, (messageId, stage) => this.#delete(messageId, [stage]))
  }

  async #delete(messageId: string, stages: readonly PayloadStage[]): Promise<void> {
    checkedMessageId(messageId)
    await asStorageError(`The payloads of ${messageId} cannot be deleted`, S3, () =>
      inParallel(PAYLOAD_STAGES.length, stages, async (stage) => {
        const Key = keyOf(messageId, stage)
        await this.#client.send(new DeleteObjectCommand({ Bucket: this.#bucket, Key })).catch(unlessMissing)
      }),
    )
  }

  messageIds(): AsyncIterable<string> {
    return messageIdsIn(this.#client, { Bucket: this.#bucket, Prefix: PREFIX })
  }

  /** Multipart uploads that are neither completed nor aborted: their parts are stored, and paid for. */
  unfinished(): AsyncIterable<string> {
    return uploadsIn(this.#client, { Bucket: this.#bucket, Prefix: PREFIX })
  }

  async discard(unfinished: string): Promise<void> {
    const upload = uploadOf(unfinished)
    await asStorageError(`The upload ${unfinished} cannot be deleted`, S3, async () => {
      const abort = new AbortMultipartUploadCommand({ Bucket: this.#bucket, ...upload })
      await this.#client.send(abort).catch((thrown: unknown) => {
        if (!isUploadMissing(thrown)) throw thrown
      })
    })
  }

  close(): void {
    this.#client.destroy()
  }
}

function keyOf(messageId: string, stage: PayloadStage): string {
  return PREFIX + payloadName(messageId, stage).join('/')
}

function unlessMissing(thrown: unknown): undefined {
  if (isMissing(thrown)) return undefined
  throw thrown
}
