import { buffer } from 'node:stream/consumers'
import { isSeveralFiles } from '../../../runtime/mime/attachment.ts'
import type { OutgoingFacts } from '../protocol/outgoing.ts'
import { rewriteParts, type PartChanges } from '../protocol/part-rewriter.ts'
import type { Content } from './sendable.ts'

export interface FileSwitches {
  readonly send_file_name: boolean
  readonly content_transfer_encoding: 'binary' | 'base64'
}

/**
 * What of a message's content is signed and sent. Of several files each part says how it is called and encoded: where
 * the profile wants that otherwise, the parts are written anew, and else they go as they are.
 */
export function sentContent(
  content: Content,
  { contentType }: Pick<OutgoingFacts, 'contentType'>,
  { send_file_name, content_transfer_encoding }: FileSwitches,
): Content {
  const changes: PartChanges = {
    removesNames: !send_file_name,
    encodesBase64: content_transfer_encoding === 'base64',
  }
  if (!isSeveralFiles(contentType) || !Object.values(changes).includes(true)) return content
  return {
    sizeBytes: content.sizeBytes,
    read: async () => buffer(rewriteParts(contentType, [await content.read()], changes)),
    open: async () => rewriteParts(contentType, await content.open(), changes),
  }
}
