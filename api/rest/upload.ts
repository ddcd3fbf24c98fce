import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { MultipartFile } from '@fastify/multipart'
import type { FastifyRequest } from 'fastify'
import {
  refusalOfFile,
  type BodyDescription,
  type Endpoint,
  type ReceivedFile,
  type UploadedFile,
  type UploadedParts,
} from '../../runtime/endpoint/endpoint.ts'
import { reasonOf, validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import { youngMemoryKeeper } from '../../runtime/young-memory.ts'
import { invalidBody, tooLarge } from './envelope.ts'

type UploadDescription = BodyDescription & { readonly kind: 'upload' }

/** Bound of one text part. */
const FIELD_LIMIT_BYTES = 1024 * 1024
/** Bound of all that is held in memory of an upload whose files are not. */
const HELD_LIMIT_BYTES = 64 * 1024
/** Beside files that may come more than once. */
const PARTS_LIMIT = 20
/** Boundaries, part headers and text beside the files themselves. */
const FRAMING_BYTES = 64 * 1024
/** How much of a refused body is still read, and for how long, so that its sender comes to read the answer. */
const DRAIN_LIMIT_BYTES = 64 * 1024 * 1024
const DRAIN_LIMIT_MS = 10_000

/** Refuses a request by what it says of its size, before any of it is read. */
export function refuseDeclaredSize(endpoint: Pick<Endpoint, 'body'>, request: FastifyRequest): void {
  const { body } = endpoint
  if (body?.kind !== 'upload') return
  if (Number(request.headers['content-length'] ?? 0) <= body.maxBytes + FRAMING_BYTES) return
  drain(request.raw)
  throw tooLarge()
}

/**
 * Reads a multipart body within the endpoint's bound. Files are held in memory, or handed on while they come in where
 * the endpoint receives them. What is refused leaves nothing behind. A text part under a file's name counts as that
 * file: people paste PEM into forms.
 */
export async function readUpload(request: FastifyRequest, body: UploadDescription): Promise<UploadedParts> {
  const received = new Map<string, ReceivedFile[]>()
  try {
    return body.receive === undefined
      ? await collect(request, body)
      : await receiveAll(request, body, body.receive, received)
  } catch (thrown) {
    drain(request.raw)
    await discardReceived(received, request.log)
    if (thrown instanceof WaybillError || thrown instanceof ReceiverFailure) throw causeOf(thrown)
    throw exceedsLimit(thrown) ? tooLarge() : invalidBody(reasonOf(thrown))
  }
}

/** Undoes what was received for a request that failed. A failure of that hides no other. */
export async function discardReceived(
  received: ReadonlyMap<string, readonly ReceivedFile[]>,
  log: Pick<Log, 'warn'>,
): Promise<void> {
  for (const [part, files] of received) {
    for (const file of files) {
      await file.discard().catch((error: unknown) => {
        log.warn({ part, reason: reasonOf(error) }, 'A received file cannot be discarded')
      })
    }
  }
}

/** Text comes as bytes too: the parser would replace what is not well-formed, and we would store what nobody sent. */
async function* partsOf(request: FastifyRequest, body: UploadDescription): AsyncGenerator<MultipartFile> {
  const maxParts = Object.values(body.several ?? {}).reduce((sum, files) => sum + files, PARTS_LIMIT)
  const parts = request.parts({
    limits: {
      fileSize: body.maxBytes,
      fieldNameSize: 100,
      files: maxParts,
      parts: maxParts,
      headerPairs: 20,
    },
    isPartAFile: () => true,
  })
  for await (const part of parts) if (part.type === 'file') yield part
}

/** A text part has no file name. Its declared character set is not asked for: text is UTF-8. */
function isFile(part: Partial<MultipartFile>, body: UploadDescription): boolean {
  return part.filename !== undefined || (part.fieldname !== undefined && part.fieldname in body.files)
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

async function textOf({ fieldname, file }: MultipartFile, limitBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of file as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > limitBytes || file.truncated) throw tooLarge()
    chunks.push(chunk)
  }
  try {
    return UTF8.decode(Buffer.concat(chunks))
  } catch {
    throw validationFailure({ [fieldname]: 'must be well-formed UTF-8 text' })
  }
}

async function collect(request: FastifyRequest, body: UploadDescription): Promise<UploadedParts> {
  const files = new Map<string, UploadedFile>()
  const fields = new Map<string, string>()
  let total = 0
  for await (const part of partsOf(request, body)) {
    const name = part.fieldname
    if (files.has(name) || fields.has(name)) throw validationFailure({ [name]: 'must be sent once' })
    if (isFile(part, body)) {
      const bytes = await part.toBuffer()
      const fileName = part.filename ?? ''
      total += bytes.length
      // A browser sends a file field that was left empty as a part without name and content.
      if (bytes.length > 0 || fileName !== '') files.set(name, { fileName, bytes })
    } else {
      const text = await textOf(part, FIELD_LIMIT_BYTES)
      total += Buffer.byteLength(text)
      fields.set(name, text)
    }
    if (total > body.maxBytes) throw tooLarge()
  }
  return { files, received: new Map(), fields }
}

async function receiveAll(
  request: FastifyRequest,
  body: UploadDescription,
  receive: NonNullable<UploadDescription['receive']>,
  received: Map<string, ReceivedFile[]>,
): Promise<UploadedParts> {
  const fields = new Map<string, string>()
  let held = 0
  let leftBytes = body.maxBytes
  const keepYoung = youngMemoryKeeper()
  request.raw.on('data', (chunk: Buffer) => keepYoung(chunk.length))
  for await (const part of partsOf(request, body)) {
    const name = part.fieldname
    refuseRepeated(name, received.get(name)?.length ?? Number(fields.has(name)), body)
    if (isFile(part, body)) {
      // Not read to its end only to be refused then.
      if (!(name in body.files)) throw validationFailure({ [name]: refusalOfFile(body, name) })
      const file = await receiveFile(part, receive, leftBytes === body.maxBytes ? null : leftBytes)
      leftBytes -= part.file.bytesRead
      if (part.file.bytesRead > 0 || (part.filename ?? '') !== '')
        received.set(name, [...(received.get(name) ?? []), file])
      else await file.discard()
    } else {
      if (fields.size >= PARTS_LIMIT) throw tooLarge()
      const text = await textOf(part, HELD_LIMIT_BYTES - held)
      held += Buffer.byteLength(text)
      fields.set(name, text)
    }
  }
  return { files: new Map(), received, fields }
}

function refuseRepeated(name: string, before: number, { several }: UploadDescription): void {
  const allowed = several?.[name] ?? 1
  if (before < allowed) return
  const rule = allowed === 1 ? 'must be sent once' : `must be sent at most ${allowed} times`
  throw validationFailure({ [name]: rule })
}

/** What the receiver itself failed with: no fault of the body. */
class ReceiverFailure extends Error {}

function causeOf(thrown: Error): unknown {
  return thrown instanceof ReceiverFailure ? thrown.cause : thrown
}

/** Hands a file on. The moment it is too large or breaks off, the receiver is told by a failure of the stream. */
async function receiveFile(
  part: MultipartFile,
  receive: NonNullable<UploadDescription['receive']>,
  /** Null: the bound of the form is all that counts. */
  leftBytes: number | null,
): Promise<ReceivedFile> {
  const { file } = part
  let broken: Error | null = null
  file.once('error', (error: Error) => {
    broken ??= error
  })
  file.once('limit', () => {
    broken = tooLarge()
    file.destroy(broken)
  })
  const exceeded = (): Error => (broken ??= tooLarge())
  const bytes: Readable =
    leftBytes === null ? file : Readable.from(bounded(file, leftBytes, exceeded), { objectMode: false })
  try {
    return await receive({ fileName: part.filename ?? '', contentType: part.mimetype, bytes })
  } catch (thrown) {
    if (broken !== null) throw broken
    throw new ReceiverFailure('A file cannot be received', { cause: thrown })
  }
}

/** Files that came before may have left less than one alone may have. */
async function* bounded(file: Readable, leftBytes: number, exceeded: () => Error): AsyncGenerator<Buffer> {
  let left = leftBytes
  for await (const chunk of file as AsyncIterable<Buffer>) {
    left -= chunk.length
    if (left < 0) throw exceeded()
    yield chunk
  }
}

function exceedsLimit(thrown: unknown): boolean {
  return thrown instanceof Error && 'statusCode' in thrown && thrown.statusCode === 413
}

/**
 * Reads on what still comes of a refused body and drops it. A connection that is closed while its client sends breaks
 * for the client before it has read why. One that sends on and on is closed all the same.
 */
function drain(request: IncomingMessage): void {
  if (request.readableEnded || request.destroyed) return
  let left = DRAIN_LIMIT_BYTES
  const timer = setTimeout(() => request.destroy(), DRAIN_LIMIT_MS).unref()
  request.once('close', () => clearTimeout(timer))
  request.once('end', () => clearTimeout(timer))
  request.unpipe()
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) request.destroy()
  })
  request.resume()
}
