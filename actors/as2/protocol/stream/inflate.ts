/** zlib data (RFC 1950) expanded as they come, with an upper bound. */
import { once } from 'node:events'
import { createInflate } from 'node:zlib'
import { Refusal } from '../refusal.ts'
import { CHUNK_BYTES } from './limits.ts'

/** How far it goes. */
export interface Expansion {
  readonly maxBytes: number
  /** Whether nobody needs the rest: it is not expanded then, and nothing is wrong for that. */
  readonly isEnough: () => boolean
}

/**
 * The bytes before compression. The compressed ones are read to their end, whatever becomes of them.
 * @throws Refusal `decompression-failed`, also when they would be more than `maxBytes`; what the source breaks off with
 */
export async function* inflated(
  source: AsyncIterable<Buffer>,
  { maxBytes, isEnough }: Expansion,
): AsyncGenerator<Buffer> {
  const inflate = createInflate({ chunkSize: CHUNK_BYTES })
  const feeding = feed(source, inflate)
  let sizeBytes = 0
  let problem: Refusal | null = null
  try {
    for await (const chunk of inflate as AsyncIterable<Buffer>) {
      sizeBytes += chunk.length
      if (sizeBytes > maxBytes) {
        problem = new Refusal('decompression-failed', `the content expands to more than ${maxBytes} bytes`)
        break
      }
      yield chunk
      if (isEnough()) break
    }
  } catch (thrown) {
    problem = new Refusal('decompression-failed', 'the compressed data are damaged', null, { cause: thrown })
  }
  const { failure } = await feeding
  if (failure !== null) throw failure.thrown
  if (problem !== null) throw problem
}

/** Never rejects, so that nobody has to wait for it at once. */
async function feed(
  source: AsyncIterable<Buffer>,
  inflate: ReturnType<typeof createInflate>,
): Promise<{ readonly failure: { readonly thrown: unknown } | null }> {
  inflate.on('error', () => undefined)
  const closed = new Promise((resolve) => inflate.once('close', resolve))
  try {
    for await (const chunk of source) {
      if (inflate.destroyed || inflate.readableEnded || inflate.write(chunk)) continue
      const drained = new AbortController()
      await Promise.race([closed, once(inflate, 'drain', { signal: drained.signal }).catch(() => undefined)])
      drained.abort()
    }
    if (!inflate.destroyed) inflate.end()
    return { failure: null }
  } catch (thrown) {
    // Whoever reads must not wait for more.
    inflate.destroy()
    return { failure: { thrown } }
  }
}
