/**
 * Gives the memory of a chunk back at once, for who alone holds it: nothing can be read from it any more. The garbage
 * collector learns of large buffers late, and would let them pile up by the hundred. A part of something larger is left
 * to it.
 */
export function release(chunk: Buffer): void {
  const { buffer, byteLength } = chunk
  if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength) buffer.transfer(0)
}
