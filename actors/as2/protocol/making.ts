/** How a message is made, beside what it says. */
import { randomBytes } from 'node:crypto'
import { IN_MEMORY_BYTES } from './stream/limits.ts'

export interface Making {
  /** CMS octets up to it are written as DER, longer ones as BER in pieces. */
  readonly limitBytes: number
  readonly randomness: Randomness
}

/**
 * What of a message is left to chance. Who makes a message twice from the same source gets the same bytes: once to
 * count them, and once to send them.
 */
export interface Randomness {
  readonly contentKey: (bytes: number) => Buffer
  readonly iv: (bytes: number) => Buffer
  /** Of multipart/signed. */
  readonly boundary: () => string
  /** The recipients of the content key, whose encryption holds chance of its own. */
  readonly recipients: (make: () => Buffer) => Buffer
  /** The signature over a digest: PSS and ECDSA hold chance of their own, and ECDSA differs in length. */
  readonly signature: (digest: Buffer, make: () => Promise<Buffer>) => Promise<Buffer>
}

/** A boundary that occurs in no content but by an accident of 128 bits. */
export function newBoundary(): string {
  return `=_${randomBytes(16).toString('hex')}`
}

/** Every message has its own. */
const FRESH: Randomness = {
  contentKey: (bytes) => randomBytes(bytes),
  iv: (bytes) => randomBytes(bytes),
  boundary: newBoundary,
  recipients: (make) => make(),
  signature: (_digest, make) => make(),
}

/** Unless somebody asks for something else. */
export const MAKING: Making = { limitBytes: IN_MEMORY_BYTES, randomness: FRESH }

/** A source for one message, which may be made as often as its maker likes. */
export function keptRandomness(): Randomness {
  const keys = kept<Buffer>()
  const boundaries = kept<string>()
  const signatures = kept<Promise<Buffer>>()
  return {
    contentKey: (bytes) => keys(`content key of ${bytes}`, () => randomBytes(bytes)),
    iv: (bytes) => keys(`iv of ${bytes}`, () => randomBytes(bytes)),
    boundary: () => boundaries('boundary', newBoundary),
    recipients: (make) => keys('recipients', make),
    signature: (digest, make) => signatures(digest.toString('hex'), make),
  }
}

function kept<Value>(): (name: string, make: () => Value) => Value {
  const values = new Map<string, Value>()
  return (name, make) => {
    const value = values.get(name) ?? make()
    values.set(name, value)
    return value
  }
}
