import type { FastifyRequest } from 'fastify'
import type { BodyDescription, UploadedFile, UploadedParts } from '../../runtime/endpoint/endpoint.ts'
import { reasonOf, validationFailure, WaybillError } from '../../runtime/errors.ts'
import { invalidBody, tooLarge } from './envelope.ts'

type UploadDescription = BodyDescription & { readonly kind: 'upload' }

/** Bound of one text part. */
const FIELD_LIMIT_BYTES = 1024 * 1024
const PARTS_LIMIT = 20
/** Boundaries and part headers beside the content itself. */
const FRAMING_BYTES = 64 * 1024

/**
 * Reads a multipart body whole, within the endpoint's bound. A text part under a file's name counts as that file:
 * people paste PEM into forms.
 */
export async function readUpload(request: FastifyRequest, body: UploadDescription): Promise<UploadedParts> {
  if (Number(request.headers['content-length'] ?? 0) > body.maxBytes + FRAMING_BYTES) throw tooLarge()
  try {
    return await collect(request, body)
  } catch (thrown) {
    if (thrown instanceof WaybillError) throw thrown
    throw exceedsLimit(thrown) ? tooLarge() : invalidBody(reasonOf(thrown))
  }
}

async function collect(request: FastifyRequest, body: UploadDescription): Promise<UploadedParts> {
  const files = new Map<string, UploadedFile>()
  const fields = new Map<string, string>()
  let total = 0
  const parts = request.parts({
    limits: {
      fileSize: body.maxBytes,
      fieldSize: Math.min(FIELD_LIMIT_BYTES, body.maxBytes),
      fieldNameSize: 100,
      files: PARTS_LIMIT,
      fields: PARTS_LIMIT,
      parts: PARTS_LIMIT,
      headerPairs: 20,
    },
  })
  for await (const part of parts) {
    const name = part.fieldname
    if (files.has(name) || fields.has(name)) throw validationFailure({ [name]: 'must be sent once' })
    if (part.type === 'file') {
      const bytes = await part.toBuffer()
      total += bytes.length
      // A browser sends a file field that was left empty as a part without name and content.
      if (bytes.length > 0 || part.filename !== '') files.set(name, { fileName: part.filename, bytes })
    } else {
      if (part.valueTruncated) throw tooLarge()
      const text = String(part.value)
      total += Buffer.byteLength(text)
      if (!(name in body.files)) fields.set(name, text)
      else if (text !== '') files.set(name, { fileName: '', bytes: Buffer.from(text) })
    }
    if (total > body.maxBytes) throw tooLarge()
  }
  return { files, fields }
}

function exceedsLimit(thrown: unknown): boolean {
  return thrown instanceof Error && 'statusCode' in thrown && thrown.statusCode === 413
}
