/** The same bytes in pieces of one length, the last one shorter; copied only where a piece spans chunks. */
export async function* inPieces(
  source: AsyncIterable<Buffer> | Iterable<Buffer>,
  bytes: number,
): AsyncGenerator<Buffer> {
  let held: Buffer[] = []
  let heldBytes = 0
  for await (const chunk of source) {
    let at = 0
    while (heldBytes + chunk.length - at >= bytes) {
      const end = at + bytes - heldBytes
      const rest = chunk.subarray(at, end)
      yield held.length === 0 ? rest : Buffer.concat([...held, rest], bytes)
      held = []
      heldBytes = 0
      at = end
    }
    if (at < chunk.length) held.push(chunk.subarray(at))
    heldBytes += chunk.length - at
  }
  if (heldBytes > 0) yield Buffer.concat(held, heldBytes)
}
