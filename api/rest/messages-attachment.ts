import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { WaybillError } from '../../runtime/errors.ts'
import { isSeveralFiles } from '../../runtime/mime/attachment.ts'
import { AttachmentList, type Attachment } from '../../runtime/mime/attachment-list.ts'
import { MimeError } from '../../runtime/mime/mime-error.ts'
import { partEvents } from '../../runtime/mime/part-events.ts'
import { attachmentName } from '../../storage/exchange/attachments.ts'
import type { MessageView } from '../../storage/exchange/messages.ts'

/** One file of a message with several. */
export interface FoundAttachment {
  readonly fileName: string
  readonly bytes: Uint8Array | Readable
}

/** A file up to this size is read before the answer begins, so that what is damaged is told by a status. */
const READ_FIRST_BYTES = 1024 * 1024

/**
 * Finds a file by its number in the list that the message shows, from 1. The payload is read twice: what the files are,
 * and which is the root, is known at its end. Throws NOT_FOUND when there is no such file.
 */
export async function findAttachment(
  message: MessageView,
  number: number,
  open: () => Promise<Readable>,
): Promise<FoundAttachment> {
  const attachment = (await listed(message, open))[number - 1]
  if (attachment === undefined) throw new WaybillError('NOT_FOUND', `The message has no attachment ${number}`)
  const content = contentOf(message.content_type, attachment.part, await open())
  const bytes = Readable.from(content, { objectMode: false })
  return {
    fileName: attachmentName(attachment, attachment.part, message.id),
    bytes: attachment.sizeBytes <= READ_FIRST_BYTES ? await buffer(bytes) : bytes,
  }
}

/** None where the message is one file, or only says that it is several. */
async function listed(
  { content_type }: MessageView,
  open: () => Promise<Readable>,
): Promise<readonly Attachment[]> {
  if (!isSeveralFiles(content_type)) return []
  try {
    const list = AttachmentList.of(content_type)
    for await (const chunk of (await open()) as AsyncIterable<Buffer>) list?.write(chunk)
    return list?.end() ?? []
  } catch (error) {
    if (error instanceof MimeError) return []
    throw error
  }
}

/** Reads on to the end of the payload, where it is held against its digest: what is damaged never ends well. */
async function* contentOf(contentType: string, part: number, source: Readable): AsyncGenerator<Buffer> {
  let current = 0
  for await (const event of partEvents(contentType, source)) {
    if (event.kind === 'begin') current += 1
    if (event.kind === 'bytes' && current === part) yield event.bytes
  }
}
