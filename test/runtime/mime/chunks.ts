/** The bytes in chunks of these sizes, in turn. */
export function inChunks(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = []
  for (let at = 0; at < bytes.length;) {
    const size = sizes[chunks.length % sizes.length] ?? bytes.length
    chunks.push(bytes.subarray(at, at + size))
    at += size
  }
  return chunks
}
