import { randomBytes, scrypt, timingSafeEqual, type ScryptOptions } from 'node:crypto'

/**
 * Passwords at rest: scrypt (RFC 7914) in the PHC string format, so that each carries its own parameters and a later
 * version can ask for more. 2^17 with r = 8 takes 128 MiB and some tenths of a second for each guess.
 */
const PARAMETERS: Parameters = { ln: 17, r: 8, p: 1 }
const SALT_BYTES = 16
const HASH_BYTES = 32
/** What a stored password may ask for at most, as 128 * N * r bytes. */
const MOST_MEMORY_BYTES = 512 * 2 ** 20
const STORED =
  /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{22,86})\$([A-Za-z0-9+/]{43,86})$/

/** NIST SP 800-63B-4 §3.1.1.2 asks for 15 where the password is the only factor; nothing is asked of its characters. */
const SHORTEST_PASSWORD = 15
export const LONGEST_PASSWORD = 256

interface Parameters {
  /** Binary logarithm of the cost. */
  readonly ln: number
  readonly r: number
  readonly p: number
}

/** Why a text cannot be a password, or null. */
export function refusalOfPassword(password: string): string | null {
  const { length } = Array.from(password)
  if (length < SHORTEST_PASSWORD) return `must have at least ${SHORTEST_PASSWORD} characters`
  if (length > LONGEST_PASSWORD) return `must have at most ${LONGEST_PASSWORD} characters`
  return /\p{Cc}/u.test(password) ? 'must not contain control characters' : null
}

/** What to store of a password. */
export async function hashPassword(password: string): Promise<string> {
  const { ln, r, p } = PARAMETERS
  const salt = randomBytes(SALT_BYTES)
  const hash = await derive(password, salt, PARAMETERS, HASH_BYTES)
  return `$scrypt$ln=${ln},r=${r},p=${p}$${base64(salt)}$${base64(hash)}`
}

/** Whether a password is the stored one. Null stands for a user who has none: it costs the same and is false. */
export async function isPassword(password: string, stored: string | null): Promise<boolean> {
  const [, ln, r, p, salt = '', hash = ''] = STORED.exec(stored ?? NOBODYS) ?? []
  if (ln === undefined) throw new Error('A stored password is not in the format it was written in')
  const expected = Buffer.from(hash, 'base64')
  const parameters = { ln: Number(ln), r: Number(r), p: Number(p) }
  const given = await derive(password, Buffer.from(salt, 'base64'), parameters, expected.length)
  return timingSafeEqual(given, expected) && stored !== null
}

const NOBODYS = `$scrypt$ln=${PARAMETERS.ln},r=${PARAMETERS.r},p=${PARAMETERS.p}$${'A'.repeat(22)}$${'A'.repeat(43)}`

/** Each takes the memory of its cost: one after the other, so that many at once cannot exhaust it. */
let last: Promise<unknown> = Promise.resolve()

function derive(password: string, salt: Buffer, parameters: Parameters, bytes: number): Promise<Buffer> {
  const { ln, r, p } = parameters
  const N = 2 ** ln
  const options: ScryptOptions = { N, r, p, maxmem: 2 * 128 * N * r }
  if (128 * N * r > MOST_MEMORY_BYTES) throw new Error('A stored password asks for too much memory')
  const turn = last.then(
    () =>
      new Promise<Buffer>((resolve, reject) => {
        // The same characters can be written in several ways; how a keyboard wrote them must not matter.
        scrypt(password.normalize('NFKC'), salt, bytes, options, (error, key) => {
          if (error === null) resolve(key)
          else reject(error)
        })
      }),
  )
  last = turn.catch(() => undefined)
  return turn
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '')
}
