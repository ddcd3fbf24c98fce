import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { GetObjectCommand, type GetObjectCommandOutput, type S3Client } from '@aws-sdk/client-s3'

/** Tries to go on with a download that broke off, in a row and without a byte between them. */
const MOST_RESUMPTIONS = 4
const FIRST_PAUSE_MS = 200

interface Place {
  readonly Bucket: string
  readonly Key: string
}

/**
 * The bytes of an object. A connection that breaks off, as that of a slow reader does after a while, is replaced by one
 * that begins where the last ended, of the same version of the object. Throws what S3 says when there is none.
 */
export async function download(client: S3Client, place: Place): Promise<Readable> {
  const first = await client.send(new GetObjectCommand(place))
  const abort = new AbortController()
  const current = { body: bodyOf(first) }
  const bytes = Readable.from(chunks(client, place, { first, current, signal: abort.signal }), {
    objectMode: false,
  })
  // Also when nobody has begun to read.
  bytes.once('close', () => {
    abort.abort()
    current.body.destroy()
  })
  return bytes
}

interface Progress {
  readonly first: GetObjectCommandOutput
  readonly current: { body: Readable }
  readonly signal: AbortSignal
}

async function* chunks(
  client: S3Client,
  place: Place,
  { first, current, signal }: Progress,
): AsyncGenerator<Buffer> {
  const sizeBytes = first.ContentLength ?? null
  let at = 0
  let failures = 0
  for (;;) {
    try {
      if (failures > 0) {
        await sleep(FIRST_PAUSE_MS * 2 ** (failures - 1), undefined, { signal })
        const rest = {
          ...place,
          Range: `bytes=${at}-`,
          ...(first.ETag === undefined ? {} : { IfMatch: first.ETag }),
        }
        current.body = bodyOf(await client.send(new GetObjectCommand(rest), { abortSignal: signal }))
      }
      for await (const chunk of current.body as AsyncIterable<Buffer>) {
        at += chunk.length
        failures = 0
        yield chunk
      }
      if (sizeBytes === null || at >= sizeBytes) return
      throw new BrokenOff(`The service broke off after ${at} of ${sizeBytes} bytes`)
    } catch (thrown) {
      failures += 1
      if (signal.aborted || failures > MOST_RESUMPTIONS) throw thrown
    }
  }
}

class BrokenOff extends Error {
  override readonly name = 'BrokenOff'
}

/** In Node.js the body is a stream of the response. */
function bodyOf({ Body }: GetObjectCommandOutput): Readable {
  if (!(Body instanceof Readable)) throw new Error('S3 answered without a body')
  // Whoever reads it sees its failure; one that nobody reads at that moment must not end the process.
  Body.on('error', () => undefined)
  return Body
}
