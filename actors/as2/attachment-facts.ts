import type { Attachment } from '../../runtime/mime/attachment-list.ts'
import { attachmentName, recordedContentType } from '../../storage/exchange/attachments.ts'
import type { As2Facts } from './facts.ts'

/** Facts are shown with every message of a list: of more files than people send, the first ones tell enough. */
const MAX_SHOWN = 100

/** What is kept of the files of a message; null: it is one file. */
export function attachmentFacts(
  attachments: readonly Attachment[] | null,
  messageId: string,
): Pick<As2Facts, 'attachments' | 'attachment_count'> {
  if (attachments === null) return { attachments: null, attachment_count: null }
  const shown = attachments.slice(0, MAX_SHOWN).map((attachment) => ({
    file_name: attachmentName(attachment, attachment.part, messageId),
    content_type: recordedContentType(attachment.contentType),
    size_bytes: attachment.sizeBytes,
  }))
  return { attachments: shown, attachment_count: attachments.length }
}
