import type { Case } from './exchange.ts'
import type { OpenAs2Cipher, OpenAs2Digest, OpenAs2Partnership } from './partnership.ts'

/** What both can do, in a vocabulary of its own, and how each side is told. */
export interface Combination {
  readonly signature?: 'sha1' | 'sha256' | 'sha384' | 'sha512'
  readonly encryption?: '3des' | 'aes128' | 'aes192' | 'aes256'
  readonly compression?: 'BeforeSigning' | 'AfterSigning'
  /** Default none. */
  readonly receipt?: 'signed' | 'unsigned' | 'signed, asynchronous' | 'unsigned, asynchronous'
}

const SIGNING_ALGORITHMS = {
  sha1: 'SHA1',
  sha256: 'SHA256',
  sha384: 'SHA384',
  sha512: 'SHA512',
} as const satisfies Partial<Record<OpenAs2Digest, string>>
const ENCRYPTION_ALGORITHMS = {
  '3des': '3DES',
  aes128: 'AES128-CBC',
  aes192: 'AES192-CBC',
  aes256: 'AES256-CBC',
} as const satisfies Partial<Record<OpenAs2Cipher, string>>

/** As the API names them; null for none. */
export function algorithmsOf({ signature, encryption }: Combination) {
  return {
    signature: signature === undefined ? null : SIGNING_ALGORITHMS[signature],
    encryption: encryption === undefined ? null : ENCRYPTION_ALGORITHMS[encryption],
  }
}

/** The properties of the profile: we send so, and take nothing less secure. */
function profileOf(combination: Combination): Case['profile'] {
  const { signature, encryption } = algorithmsOf(combination)
  const { receipt } = combination
  return {
    signing_algorithm: signature ?? 'None',
    encryption_algorithm: encryption ?? 'None',
    compression: combination.compression ?? 'None',
    receipt_mode: receipt === undefined ? 'None' : receipt.endsWith('asynchronous') ? 'Async' : 'Sync',
    receipt_signed: receipt?.startsWith('signed') ?? false,
    require_signed: signature !== null,
    require_encrypted: encryption !== null,
  }
}

function partnershipOf({
  signature,
  encryption,
  compression,
  receipt,
}: Combination): Partial<OpenAs2Partnership> {
  return {
    signature: signature ?? null,
    encryption: encryption ?? null,
    compression: compression ?? null,
    receipt:
      receipt === undefined
        ? null
        : { signed: receipt.startsWith('signed'), asynchronous: receipt.endsWith('asynchronous') },
  }
}

/** A case in which both sides send with the same combination. */
export function bothWays(name: string, combination: Combination, more: Partial<Case> = {}): Case {
  return {
    name,
    ...more,
    profile: { ...profileOf(combination), ...more.profile },
    partnership: { ...partnershipOf(combination), ...more.partnership },
  }
}
