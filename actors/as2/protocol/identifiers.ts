/** The names of a message's parties and the identifier of the message. */
import { randomUUID } from 'node:crypto'
import { ComposeError } from './compose-error.ts'

const MAX_AS2_NAME_CHARACTERS = 128
const MAX_MESSAGE_ID_CHARACTERS = 998

/** Whether a text may be an AS2 name: 1 to 128 printable ASCII characters (RFC 4130 §6.2). Case counts. */
function isAs2Name(text: string): boolean {
  return text.length <= MAX_AS2_NAME_CHARACTERS && /^[\x20-\x7e]*[\x21-\x7e][\x20-\x7e]*$/.test(text)
}

/** An AS2 name as the header carries it: quoted only when a space, a quote or a backslash occurs. */
export function formatAs2Name(name: string): string {
  if (!isAs2Name(name)) throw new ComposeError('an AS2 name has 1 to 128 printable ASCII characters')
  return /[ "\\]/.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name
}

/** The name that `AS2-From` or `AS2-To` carries, or null when it carries none. */
export function parseAs2Name(field: string): string | null {
  const text = field.trim()
  const quoted = text.length >= 2 && text.startsWith('"') && text.endsWith('"')
  const name = quoted ? text.slice(1, -1).replace(/\\(["\\])/g, '$1') : text
  return isAs2Name(name) ? name : null
}

/** A new Message-ID in brackets; `host` stands behind the `@` (RFC 5322 §3.6.4). */
export function newMessageId(host: string): string {
  return `<${randomUUID()}@${host.replace(/[^A-Za-z0-9.-]/g, '-') || 'localhost'}>`
}

/** Whether a text can travel as a Message-ID: 1 to 998 printable ASCII characters (RFC 4130 §5.3.3). */
export function isMessageId(text: string): boolean {
  return text.length <= MAX_MESSAGE_ID_CHARACTERS && /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text)
}

/** Whether two Message-IDs are the same but for their brackets, which some products leave out. */
export function sameMessageId(a: string, b: string): boolean {
  return withoutBrackets(a) === withoutBrackets(b)
}

function withoutBrackets(messageId: string): string {
  const text = messageId.trim()
  return text.startsWith('<') && text.endsWith('>') ? text.slice(1, -1).trim() : text
}
