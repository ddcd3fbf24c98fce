/** Every way in which a message can travel: 13 signatures, 8 encryptions, 3 compressions, and the rest by turns. */

const DIGESTS = ['SHA1', 'SHA256', 'SHA384', 'SHA512'] as const
const SIGNERS = ['RSA with PKCS1', 'RSA with PSS', 'EC'] as const
const ENCRYPTIONS = [
  'None',
  '3DES',
  'AES128-CBC',
  'AES192-CBC',
  'AES256-CBC',
  'AES128-GCM',
  'AES192-GCM',
  'AES256-GCM',
] as const
const COMPRESSIONS = ['None', 'BeforeSigning', 'AfterSigning'] as const
const RECIPIENTS = ['RSA with PKCS1', 'RSA with OAEP-SHA256', 'RSA with OAEP-SHA1', 'EC'] as const
const RECEIPTS = ['None', 'Sync', 'Sync, signed', 'Async', 'Async, signed'] as const

export interface Combination {
  /** The partner's AS2 name, and its organization's. */
  readonly partner: string
  readonly title: string
  /** Null for a message that is not signed. */
  readonly signature: {
    readonly digest: (typeof DIGESTS)[number]
    readonly signer: (typeof SIGNERS)[number]
  } | null
  readonly encryption: (typeof ENCRYPTIONS)[number]
  readonly compression: (typeof COMPRESSIONS)[number]
  readonly recipient: (typeof RECIPIENTS)[number]
  readonly receipt: (typeof RECEIPTS)[number]
}

const SIGNATURES: readonly Combination['signature'][] = [
  null,
  ...SIGNERS.flatMap((signer) => DIGESTS.map((digest) => ({ digest, signer }))),
]

export const COMBINATIONS: readonly Combination[] = SIGNATURES.flatMap((signature) =>
  ENCRYPTIONS.flatMap((encryption) =>
    COMPRESSIONS.map((compression) => [signature, encryption, compression] as const),
  ),
).map(([signature, encryption, compression], index) => {
  // 312 is no multiple of 5 but of 4, so the recipients shift with each round.
  const recipient = pick(RECIPIENTS, index + Math.floor(index / 24))
  const receipt = pick(RECEIPTS, index)
  const parts = [
    signature === null ? 'unsigned' : `${signature.digest} by ${signature.signer}`,
    encryption === 'None' ? 'not encrypted' : `${encryption} to ${recipient}`,
    `compression ${compression}`,
    `receipt ${receipt}`,
  ]
  const partner = `PARTNER ${index}`
  return { signature, encryption, compression, recipient, receipt, partner, title: parts.join('; ') }
})

function pick<Value>(values: readonly Value[], index: number): Value {
  return values[index % values.length] as Value
}
