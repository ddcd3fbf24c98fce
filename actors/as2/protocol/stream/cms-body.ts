/** The body of a CMS entity, by the rules of `cmsBytes` in mime.ts. */
import { decoderFor } from '../../../../runtime/mime/transfer-decoding.ts'
import { isBer, isQuotedCms } from '../mime.ts'
import { ByteSource } from './byte-source.ts'
import type { StreamedEntity } from './entity.ts'

/** `text` is told of what is encoded, if it is. */
export async function cmsBody(
  { headers, body }: StreamedEntity,
  text: (bytes: Buffer) => void,
): Promise<ByteSource> {
  await body.gather(3)
  if (isBer(body.peek(0), body.peek(1), body.peek(2))) return body
  const encoding = headers.get('content-transfer-encoding')
  const isQuoted = isQuotedCms(encoding, body.peek(0))
  return new ByteSource(decoded(body, isQuoted ? 'quoted-printable' : 'base64', text))
}

async function* decoded(
  body: ByteSource,
  encoding: 'quoted-printable' | 'base64',
  text: (bytes: Buffer) => void,
): AsyncGenerator<Buffer> {
  const decoder = decoderFor(encoding)
  for await (const chunk of body) {
    text(chunk)
    yield decoder.write(chunk)
  }
  yield decoder.end()
}
