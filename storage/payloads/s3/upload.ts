import { pipeline, Readable } from 'node:stream'
import type { S3Client } from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { Measure } from '../digest.ts'
import { fromSource } from '../failure.ts'
import type { StoredPayload } from '../store.ts'

/** Parts of one upload that are sent at the same time; each is held in memory meanwhile. */
const PARALLEL_PARTS = 2

/**
 * Stores a stream as one object: in parts when it is larger than one, otherwise with a single request. One that is cut
 * off is aborted when its last request is over, so that no part stays behind.
 */
export async function uploadStream(
  client: S3Client,
  to: { readonly Bucket: string; readonly Key: string },
  source: Readable | Buffer,
  partBytes: number,
): Promise<StoredPayload> {
  const measure = new Measure()
  const bytes = Buffer.isBuffer(source) ? Readable.from(slices(source), { objectMode: false }) : source
  // The reader of the second stream sees the errors of the first.
  pipeline(fromSource(bytes), measure, () => undefined)
  try {
    const params = { ...to, Body: measure }
    await new Upload({ client, params, partSize: partBytes, queueSize: PARALLEL_PARTS }).done()
    return measure.result()
  } finally {
    measure.destroy()
  }
}

/** Otherwise one chunk would be all of it, and be copied as a whole. */
function* slices(bytes: Buffer): Generator<Buffer> {
  const sliceBytes = 1024 * 1024
  for (let at = 0; at < bytes.length; at += sliceBytes) yield bytes.subarray(at, at + sliceBytes)
}
