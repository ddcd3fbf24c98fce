/**
 * zlib (RFC 1950) such that equal input gives equal output, however it comes: what the receipt of a compressed and
 * signed message covers depends on it. The input is therefore always handed over in pieces of one length.
 */
import { pipeline } from 'node:stream'
import { createDeflate, deflateSync } from 'node:zlib'
import { CHUNK_BYTES } from '../stream/limits.ts'
import { inPieces } from '../stream/pieces.ts'

/**
 * The compressed bytes. A piece is compressed in this thread: handing it to another costs as much again, and what zlib
 * holds meanwhile makes the garbage collector run for nearly every message.
 */
export async function deflated(bytes: Buffer): Promise<Buffer[]> {
  if (bytes.length <= CHUNK_BYTES) return [deflateSync(bytes)]
  const chunks: Buffer[] = []
  for await (const chunk of deflateStream([bytes])) chunks.push(chunk)
  return chunks
}

export async function* deflateStream(
  source: AsyncIterable<Buffer> | Iterable<Buffer>,
): AsyncGenerator<Buffer> {
  // Who reads the compressed stream sees the errors of the other.
  const compressed = pipeline(
    inPieces(source, CHUNK_BYTES),
    createDeflate({ chunkSize: CHUNK_BYTES }),
    () => undefined,
  )
  for await (const chunk of compressed as AsyncIterable<Buffer>) yield chunk
}
