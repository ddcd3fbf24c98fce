/** Bytes that are not the MIME structure expected. */
export class MimeError extends Error {
  override readonly name = 'MimeError'
}
