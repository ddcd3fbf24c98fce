/** The headers that tell what the sender of a message or receipt is and can do. */
import type { HeaderList } from '../../../runtime/mime/headers.ts'

/**
 * The edition of AS2 that a message names: with compression (RFC 4130 §6.1), with EDIINT-Features (RFC 6017 §2), or
 * with the rules of the draft that is to replace RFC 4130, which asks for AS2-Product, too.
 */
export type As2Version = '1.1' | '1.2' | '1.3'

export const DEFAULT_AS2_VERSION: As2Version = '1.3'

/** A message may hold several documents (RFC 6362); a repeat keeps its Message-ID and is answered with its receipt. */
const FEATURES = 'multiple-attachments, AS2-Reliability'

/**
 * AS2-Version, and what the version comes with. A product that hides its version has no AS2-Product to show, and so
 * names version 1.2 at most.
 * @param product `name/version` or the name alone
 */
export function versionHeaders(wanted: As2Version, product: string): HeaderList {
  const named = productOf(product)
  const version = wanted === '1.3' && named === null ? '1.2' : wanted
  return [
    ['AS2-Version', version],
    ...(version === '1.1' ? [] : [['EDIINT-Features', FEATURES] as const]),
    ...(version === '1.3' && named !== null ? [['AS2-Product', named] as const] : []),
  ]
}

/** `name:version`, the name in lower case without other characters than letters, digits, hyphens and dots. */
function productOf(product: string): string | null {
  const [, name = '', version = ''] = /^([^/]+)\/(\d+(?:\.\d+)*[\w.-]*)$/.exec(product) ?? []
  const plain = name.toLowerCase().replaceAll(/[^a-z0-9.-]+/g, '-')
  return version === '' ? null : `${plain}:${version}`
}
