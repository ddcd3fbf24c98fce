/** A message that must be read as a stream: nothing is wrong with it, and nothing was found out about it. */
export class BeyondMemory extends Error {
  override readonly name = 'BeyondMemory'
}
