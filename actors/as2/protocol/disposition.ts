/**
 * What a receipt says happened to a message (RFC 4130 §7.4.3 to §7.5.6):
 * `automatic-action/MDN-sent-automatically; processed/error: decryption-failed`.
 */

import { withoutComments } from './comments.ts'

export type ModifierKind = 'error' | 'failure' | 'warning'

export interface Disposition {
  readonly type: 'processed' | 'failed'
  readonly modifier: { readonly kind: ModifierKind; readonly text: string } | null
}

export const PROCESSED: Disposition = { type: 'processed', modifier: null }

const MODE = 'automatic-action/MDN-sent-automatically'
const MAX_TEXT_CHARACTERS = 1_000

/** Whether the partner took the message: processed, with at most a warning (RFC 4130 §7.5.4). */
export function isPositive(disposition: Disposition): boolean {
  const { type, modifier } = disposition
  return type === 'processed' && (modifier === null || modifier.kind === 'warning')
}

export function formatDisposition(disposition: Disposition): string {
  const { type, modifier } = disposition
  return modifier === null ? `${MODE}; ${type}` : `${MODE}; ${type}/${modifier.kind}: ${modifier.text}`
}

/**
 * Reads the field `Disposition` in any case and spacing, with or without its mode, comments and a last semicolon. A
 * modifier that is neither error, failure nor warning counts as an error, so that nothing unknown passes for success.
 * Null when it is neither processed nor failed.
 */
export function parseDisposition(field: string): Disposition | null {
  const said = withoutComments(field).replace(/\s+/g, ' ').trim().replace(/;$/, '')
  const semicolon = said.indexOf(';')
  const [, typeText, slash, modifierText = ''] =
    /^\s*([a-z]+)\s*(?:(\/)\s*(.*))?$/is.exec(
      said.slice(semicolon + 1, semicolon + 1 + MAX_TEXT_CHARACTERS),
    ) ?? []
  const type = typeText?.toLowerCase()
  if (type !== 'processed' && type !== 'failed') return null
  return { type, modifier: slash === undefined ? null : parseModifier(modifierText.trim()) }
}

function parseModifier(text: string): Disposition['modifier'] {
  const [, kindText = '', rest = ''] = /^([a-z]+)\s*(?:[:,]\s*(.*))?$/is.exec(text) ?? []
  const kind = kindText.toLowerCase()
  return kind === 'error' || kind === 'failure' || kind === 'warning'
    ? { kind, text: rest.trim() }
    : { kind: 'error', text }
}
