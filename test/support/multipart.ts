/** Bodies of `multipart/form-data`, written byte by byte: also such as no client library would send. */

export interface Part {
  readonly name: string
  /** As it stands between the quotes; left out: the part is a field. */
  readonly fileName?: string
  readonly type?: string
  readonly content: string | Uint8Array
}

const BOUNDARY = 'a-boundary-of-tests'

export const MULTIPART_HEADERS = {
  'content-type': `multipart/form-data; boundary=${BOUNDARY}`,
  'x-requested-with': 'test',
} as const

export const CLOSING = Buffer.from(`\r\n--${BOUNDARY}--\r\n`)

/** A part up to its content. */
export function partHead({ name, fileName, type }: Omit<Part, 'content'>): Buffer<ArrayBuffer> {
  const disposition = `form-data; name="${name}"${fileName === undefined ? '' : `; filename="${fileName}"`}`
  return Buffer.from(
    `\r\n--${BOUNDARY}\r\nContent-Disposition: ${disposition}\r\n${type === undefined ? '' : `Content-Type: ${type}\r\n`}\r\n`,
  )
}

/** The parts in this order; without the closing boundary when the body is to break off. */
export function multipart(parts: readonly Part[], closing = true): Buffer<ArrayBuffer> {
  const bytes = parts.flatMap((part) => [partHead(part), Buffer.from(part.content)])
  return Buffer.concat(closing ? [...bytes, CLOSING] : bytes).subarray(2)
}
