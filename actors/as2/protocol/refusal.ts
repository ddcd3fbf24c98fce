/** Why a message or a receipt was not taken: what the partner may know, and what the operator may. */
import type { Disposition } from './disposition.ts'
import type { Mic } from './mic.ts'

/** The reasons a receipt may give: RFC 4130 §7.4.3 and §7.5, and those its successor draft adds. */
export const REFUSALS = {
  'authentication-failed': error('The sender could not be authenticated.'),
  'decompression-failed': error('The message could not be decompressed.'),
  'decryption-failed': error('The message could not be decrypted.'),
  'duplicate-filename': error('A file of this name was received before.'),
  'illegal-filename': error('The file name is not acceptable.'),
  'insufficient-message-security': error('The message is not signed or encrypted as agreed.'),
  'integrity-check-failed': error('The content of the message does not match its signature.'),
  'invalid-message-id': error('The Message-ID is not acceptable.'),
  'unexpected-processing-error': error('The message could not be processed.'),
  'unknown-trading-relationship': error('The sender and the receiver named are not known to each other.'),
  'unsupported format': failure('The receipt cannot be signed in the format that was asked for.'),
  'unsupported MIC-algorithms': failure('None of the MIC algorithms that were asked for is supported.'),
  'sender-equals-receiver': failure('The sender and the receiver named are the same.'),
} as const satisfies Record<string, { type: Disposition['type']; kind: 'error' | 'failure'; text: string }>

export type RefusalModifier = keyof typeof REFUSALS

export class Refusal extends Error {
  override readonly name = 'Refusal'
  /** What the receipt says. */
  readonly modifier: RefusalModifier
  /** What happened, for the operator alone: it never travels to the partner. */
  readonly reason: string
  /** The MIC for the receipt, where it is known and may be told. */
  readonly mic: Mic | null

  /** The message of the error is fit for the partner: it depends on the modifier alone. */
  constructor(modifier: RefusalModifier, reason: string, mic: Mic | null = null, options?: ErrorOptions) {
    super(REFUSALS[modifier].text, options)
    this.modifier = modifier
    this.reason = reason
    this.mic = mic
  }
}

/**
 * One that is told also of what was encrypted, before the partner's signature is verified: whoever alters a ciphertext
 * without knowing what is in it cannot bring it about.
 */
export class TellableRefusal extends Refusal {}

/** The disposition of the receipt that answers a refused message. */
export function dispositionOf(modifier: RefusalModifier): Disposition {
  const { type, kind } = REFUSALS[modifier]
  return { type, modifier: { kind, text: modifier } }
}

function error(text: string): { type: 'processed'; kind: 'error'; text: string } {
  return { type: 'processed', kind: 'error', text }
}

function failure(text: string): { type: 'failed'; kind: 'failure'; text: string } {
  return { type: 'failed', kind: 'failure', text }
}
