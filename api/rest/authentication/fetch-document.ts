import { reasonOf } from '../../../runtime/errors.ts'

const TIMEOUT_MS = 5_000
const MOST_BYTES = 512 * 1024

/**
 * The JSON document at an address, within bounds of time and size. A redirect is a failure: it could lead where the
 * operator did not mean. Throws an Error whose message is for the log.
 */
export async function fetchDocument(url: string, userAgent: string): Promise<unknown> {
  const bytes = await fetchBytes(url, userAgent).catch((thrown: unknown) => {
    const cause = thrown instanceof Error && thrown.cause !== undefined ? `: ${reasonOf(thrown.cause)}` : ''
    throw new Error(`${url}: ${reasonOf(thrown)}${cause}`, { cause: thrown })
  })
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch (thrown) {
    throw new Error(`${url}: not JSON: ${reasonOf(thrown)}`, { cause: thrown })
  }
}

async function fetchBytes(url: string, userAgent: string): Promise<Buffer> {
  const response = await fetch(url, {
    redirect: 'manual',
    // Compressed, a small answer could become a large one.
    headers: { accept: 'application/json', 'accept-encoding': 'identity', 'user-agent': userAgent },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  const { status, body } = response
  if (status !== 200 || body === null) {
    await body?.cancel()
    throw new Error(`answered with ${status}`)
  }
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop early cancels the body.
  for await (const chunk of body) {
    length += chunk.byteLength
    if (length > MOST_BYTES) throw new Error(`larger than ${MOST_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
