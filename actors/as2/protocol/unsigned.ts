/**
 * What may be told of a message that is encrypted and not signed, where a signature is demanded: nobody vouches for what
 * was in it, and whoever alters ciphertexts and watches the answers must not learn what they decrypt to.
 */
import { parseParameters } from '../../../runtime/mime/parameters.ts'
import type { HeaderFields } from '../../../runtime/mime/headers.ts'
import { CIPHERS } from './algorithms.ts'
import type { CipherName } from './algorithms.ts'
import type { Entity } from './mime.ts'
import type { Progress, Reception } from './incoming.ts'
import { Refusal, TellableRefusal } from './refusal.ts'
import { TextCheck } from './text.ts'

/** The innermost entity of a message, to its last byte. */
export interface WholeEntity {
  readonly headers: HeaderFields
  /** The header block with its blank line, as it came. */
  readonly head: Buffer
  /** Whether head and body are text. */
  readonly isText: boolean
}

/** Whether a message that was encrypted lacks the signature that the profile demands. */
export function mustBeSigned({ require }: Pick<Reception, 'require'>, progress: Progress): boolean {
  return require?.signed === true && progress.encryption !== null && progress.verification === null
}

export function wholeOf({ headers, raw, body }: Entity): WholeEntity {
  const check = new TextCheck()
  check.write(raw)
  return { headers, head: raw.subarray(0, raw.length - body.length), isText: check.isText }
}

/**
 * Whether content counts for nothing however it ends: it was compressed, so it may be of any size, and lacks the signature
 * that the profile demands. Nothing is computed over it then, and none of it is kept.
 */
export function isInVain(
  { require }: Pick<Reception, 'require'>,
  layers: { readonly isCompressed: boolean; readonly isSigned: boolean },
): boolean {
  return require?.signed === true && layers.isCompressed && !layers.isSigned
}

/** @throws Refusal where compressed content counts for nothing whatever it is: it is not expanded then */
export function checkBeforeExpanding(
  { require }: Pick<Reception, 'require'>,
  { isEncrypted }: { readonly isEncrypted: boolean },
): void {
  if (require?.encrypted !== true || isEncrypted) return
  throw new Refusal('insufficient-message-security', 'the message is not encrypted')
}

/** Of a message that is not encrypted. */
export function unsigned(): Refusal {
  return new Refusal('insufficient-message-security', 'the message is not signed')
}

/** To be thrown before anything is computed over the content. It has no MIC: that would be of what nobody vouches for. */
export function unsignedRefusal({ encryption }: Progress, entity: WholeEntity): Refusal {
  const isGenuine =
    encryption !== null &&
    isMime(entity) &&
    (isAuthenticated(encryption) || (entity.isText && hasLongBlocks(encryption)))
  const Kind = isGenuine ? TellableRefusal : Refusal
  return new Kind('insufficient-message-security', 'the message is not signed')
}

/** Who made the ciphertext of GCM had its key. */
function isAuthenticated({ algorithm }: { readonly algorithm: CipherName }): boolean {
  return CIPHERS[algorithm].mode === 'GCM'
}

/** A block of 8 bytes becomes text by chance too often. */
const LEAST_BLOCK_BYTES = 16

/**
 * Whoever alters a ciphertext in CBC makes a block that decrypts to chance, but for the first one: that one he may turn
 * into anything, and put before others of the message. So all must be text, and begin with more of a header than a block
 * holds.
 */
function hasLongBlocks({ algorithm }: { readonly algorithm: CipherName }): boolean {
  return CIPHERS[algorithm].ivBytes >= LEAST_BLOCK_BYTES
}

/** Its name and type are longer than a block of 16 bytes. */
const KNOWN_TYPE =
  /^(?:application|audio|font|image|message|model|multipart|text|video)\/[!#$%&'*+.^_`|~0-9a-z-]+$/

/** What has no header of a message is no message that lacks a signature, but broken. */
function isMime({ headers, head }: WholeEntity): boolean {
  const isEnded = /\n\r?\n$/.test(head.toString('latin1', Math.max(0, head.length - 3)))
  const { value } = parseParameters(headers.get('content-type') ?? '')
  return isEnded && KNOWN_TYPE.test(value)
}
