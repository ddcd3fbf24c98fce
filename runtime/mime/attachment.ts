/**
 * Messages with several files: one multipart/related entity, each part of which is a file (RFC 6362, RFC 2387). Some
 * products send multipart/mixed, which means the same here.
 */
import type { HeaderFields } from './headers.ts'
import { fileNameOf, parseParameters } from './parameters.ts'
import { encodingOf } from './transfer-decoding.ts'

/** Beyond it a message is refused: nobody sends so many on purpose. */
export const MAX_ATTACHMENTS = 1_000

const SEVERAL_FILES: ReadonlySet<string> = new Set(['multipart/related', 'multipart/mixed'])
const UNKNOWN_TYPE = 'application/octet-stream'

/** What a part says of its file. */
export interface PartFacts {
  /** As the sender wrote it: never a path to use unchecked. */
  readonly fileName: string | null
  /** May be missing (RFC 6362 §3); then `application/octet-stream`, see `contentTypeOf`. */
  readonly contentType: string
}

/** Whether content of this type should be several files. */
export function isSeveralFilesType(contentType: string): boolean {
  return SEVERAL_FILES.has(parseParameters(contentType).value)
}

/** Whether content of this type can be taken apart into several files: without a boundary it is one. */
export function isSeveralFiles(contentType: string): boolean {
  const { value, parameters } = parseParameters(contentType)
  return SEVERAL_FILES.has(value) && (parameters.get('boundary') ?? '') !== ''
}

/** By what name the whole is known: that of the first file that has one. */
export function firstName(attachments: readonly PartFacts[] | null): string | null {
  return attachments?.find(({ fileName }) => fileName !== null)?.fileName ?? null
}

export function partFacts(headers: HeaderFields): PartFacts {
  return {
    fileName: fileNameOf(headers.get('content-disposition'), headers.get('content-type')),
    contentType: contentTypeOf(headers),
  }
}

/** Of what is in an unknown transfer encoding nobody knows what it is (RFC 2045 §6.4). */
export function contentTypeOf(headers: HeaderFields): string {
  const isKnown = encodingOf(headers.get('content-transfer-encoding')) !== 'unknown'
  const contentType = headers.get('content-type') ?? ''
  return isKnown && contentType !== '' ? contentType : UNKNOWN_TYPE
}

/** Whether a part is the one that the content type's `start` names (RFC 2387 §3.2). */
export function isStart(contentType: string, headers: HeaderFields): boolean {
  const start = parseParameters(contentType).parameters.get('start')
  const id = headers.get('content-id')
  return start !== undefined && id !== null && bare(start) === bare(id)
}

function bare(id: string): string {
  return id.trim().replace(/^<(.*)>$/s, '$1')
}
