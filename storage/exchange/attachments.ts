import { isSeveralFiles, type PartFacts } from '../../runtime/mime/attachment.ts'
import { parseParameters } from '../../runtime/mime/parameters.ts'
import { endingOf } from './content-type.ts'
import { recordedFileName } from './file-name.ts'

/**
 * The files of a message with several. Their names never refuse a message: partners send odd ones and equal ones. They
 * are made harmless as those of single files are, and a target that needs different ones makes them so.
 */

/** The name that a file of a message is known by. One without a name is called after the message and its place in it. */
export function attachmentName(
  { fileName, contentType }: PartFacts,
  part: number,
  messageId: string,
): string {
  const ending = endingOf(parseParameters(contentType).value)
  return recordedFileName(fileName ?? '', `${messageId}-${part}${ending}`)
}

/** What a record holds of a content type: as much as a header carries, in characters that can be shown. */
const MAX_CHARACTERS = 255
/** With what tells the parts of a multipart apart. */
const MAX_MULTIPART_CHARACTERS = 900
const MAX_KEPT_CHARACTERS = 255

/**
 * A content type that came from outside, as records keep it. Of one that is too long for that something is cut off; of
 * several files the boundary always stays, without which nobody could take them apart.
 */
export function recordedContentType(received: string): string {
  if (!isSeveralFiles(received)) return shown(received).slice(0, MAX_CHARACTERS)
  const isHarmless = received.length <= MAX_MULTIPART_CHARACTERS && /^[\x20-\x7e]+$/.test(received)
  return isHarmless ? received : essential(received)
}

function essential(received: string): string {
  const { value, parameters } = parseParameters(received)
  const kept = ['boundary', 'type', 'start'].flatMap((name) => {
    const text = parameters.get(name)
    if (text === undefined || text.length > MAX_KEPT_CHARACTERS) return []
    return [`; ${name}="${shown(text).replaceAll(/["\\]/g, String.raw`\$&`)}"`]
  })
  return value + kept.join('')
}

function shown(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '_')
}
