import type { Readable } from 'node:stream'
import { isSeveralFiles } from '../../../runtime/mime/attachment.ts'
import { AttachmentList } from '../../../runtime/mime/attachment-list.ts'
import { MimeError } from '../../../runtime/mime/mime-error.ts'
import type { ClaimedDelivery } from '../../../storage/sql/claim.ts'
import { attachmentFacts } from '../attachment-facts.ts'
import { as2Facts, type As2Facts } from '../facts.ts'

export type SentAttachments = Pick<As2Facts, 'attachments' | 'attachment_count'>

/** The files of a message that is sent: as an earlier attempt, or who received it, has listed them, or else read now. */
export async function sentAttachments(
  delivery: ClaimedDelivery,
  open: () => Promise<Readable>,
): Promise<SentAttachments> {
  const { content_type, message_id, protocols } = delivery
  if (!isSeveralFiles(content_type)) return attachmentFacts(null, message_id)
  const { attachments = null, attachment_count = null } = as2Facts(protocols) ?? {}
  if (attachments !== null) return { attachments, attachment_count }
  return attachmentFacts(await listed(content_type, open), message_id)
}

/** Null for what only says that it is several files: whether to take it is the partner's matter. */
async function listed(
  contentType: string,
  open: () => Promise<Readable>,
): Promise<ReturnType<AttachmentList['end']> | null> {
  try {
    const list = AttachmentList.of(contentType)
    if (list === null) return null
    for await (const chunk of (await open()) as AsyncIterable<Buffer>) list.write(chunk)
    return list.end()
  } catch (error) {
    if (error instanceof MimeError) return null
    throw error
  }
}
