import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

/**
 * The text of an API token: `wbl_`, 12 characters that name it, 40 random ones, and 6 of a checksum over all before
 * it. Base62 throughout, so that a double click selects it whole; the fixed prefix and the checksum let scanners find
 * a token that was left in a file without asking anybody.
 */
const PREFIX = 'wbl_'
const PUBLIC_ID_LENGTH = 12
/** 238 bits. */
const SECRET_LENGTH = 40
/** 62^6 is more than 2^32. */
const CHECKSUM_LENGTH = 6

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const TOKEN = new RegExp(
  `^${PREFIX}([0-9A-Za-z]{${PUBLIC_ID_LENGTH}})[0-9A-Za-z]{${SECRET_LENGTH}}([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`,
)
/** Names no token: none is made of zeros alone but with a chance of 1 in 62^12. */
const NOBODY = '0'.repeat(PUBLIC_ID_LENGTH)

export interface NewToken {
  readonly text: string
  readonly publicId: string
  readonly sha256: Buffer
}

export function makeToken(): NewToken {
  const publicId = randomText(PUBLIC_ID_LENGTH)
  const body = PREFIX + publicId + randomText(SECRET_LENGTH)
  const text = body + checksumOf(body)
  return { text, publicId, sha256: Buffer.from(sha256(text), 'base64') }
}

/** Whether a credential means to be an API token. */
export function isTokenText(credential: string): boolean {
  return credential.startsWith(PREFIX)
}

/**
 * What to look a token up by. One that is malformed gets a name that no token has, so that it costs the same work as
 * an unknown one.
 */
export function readToken(text: string): { readonly publicId: string; readonly wellFormed: boolean } {
  const [, publicId = NOBODY, checksum] = TOKEN.exec(text) ?? []
  const wellFormed = checksum === checksumOf(text.slice(0, -CHECKSUM_LENGTH))
  return { publicId: wellFormed ? publicId : NOBODY, wellFormed }
}

/** In base64: where every request needs one, its text is made in a third of the time of its bytes. */
export function sha256(text: string): string {
  return hash('sha256', text, 'base64')
}

/** CRC-32 in base62, with leading zeros. */
function checksumOf(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let place = 0; place < CHECKSUM_LENGTH; place += 1) {
    digits = DIGITS.charAt(rest % DIGITS.length) + digits
    rest = Math.floor(rest / DIGITS.length)
  }
  return digits
}

/** Bytes above the largest multiple of 62 are thrown away: each digit is as likely as any other. */
function randomText(length: number): string {
  const limit = 256 - (256 % DIGITS.length)
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(length * 2)) {
      if (byte < limit && text.length < length) text += DIGITS.charAt(byte % DIGITS.length)
    }
  }
  return text
}
