/** A message or receipt that cannot be made as asked: an unusable name, certificate, key or combination. */
export class ComposeError extends Error {
  override readonly name = 'ComposeError'
}
