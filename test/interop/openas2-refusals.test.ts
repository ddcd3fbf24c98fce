import t, { type Test } from 'tap'
import { bothWays, type Combination } from './openas2/combinations.ts'
import { Exchange, type Case } from './openas2/exchange.ts'
import type { OpenAs2Partnership } from './openas2/partnership.ts'
import { as2IdOf, type MessageView } from './site.ts'

/** What either side does not take of the other, and how it ends: always in a state that an operator sees. */

const FILE_NAME = 'orders.edi'
const CONTENT = Buffer.from("UNB+UNOC:3+ONE+OTHER'\r\n".repeat(20))
const BARE_LINE_FEEDS = Buffer.from("UNB+UNOC:3+ONE+OTHER'\n".repeat(20))
const signed = { signature: 'sha256', receipt: 'signed' } as const
const encrypted = { encryption: 'aes256', receipt: 'signed' } as const
const later = 'signed, asynchronous'
const secure = { ...signed, ...encrypted } as const

/** OpenAS2 sends it, and we refuse it. */
interface WeRefuse {
  readonly what: string
  readonly how: Case
  readonly modifier: string
  /** In the history of the message. */
  readonly reason: RegExp
  /** What OpenAS2 logs; default that it received the negative receipt. */
  readonly logged?: RegExp
}

/** As in the combination, but for what is said of the partnership. */
function theySend(
  name: string,
  combination: Combination,
  partnership: Partial<OpenAs2Partnership>,
  more: Partial<Case> = {},
): Case {
  return bothWays(name, combination, { ...more, partnership })
}

const WE_REFUSE: readonly WeRefuse[] = [
  ...(['md5', 'sha224'] as const).map((signature) => ({
    what: `signed with ${signature}`,
    how: theySend(signature, signed, { signature }),
    modifier: 'authentication-failed',
    reason: /^the signature's digest (MD5|SHA-224) \(.*\) is not supported$/,
  })),
  ...(['rc2', 'cast5', 'idea'] as const).map((encryption) => ({
    what: `encrypted with ${encryption}`,
    how: theySend(encryption, secure, { encryption }),
    modifier: 'decryption-failed',
    reason: /^content encryption (RC2|CAST-128|IDEA) \(.*\) is not supported$/,
  })),
  {
    what: 'encrypted with a cipher that wraps keys',
    how: theySend('key-wrap', secure, { encryption: 'aes256_wrap' }),
    modifier: 'unexpected-processing-error',
    reason: /^the message is malformed/,
  },
  {
    what: 'without the signature that the profile requires',
    how: theySend('unsigned', signed, { signature: null }),
    modifier: 'insufficient-message-security',
    reason: /sign/,
  },
  {
    what: 'without the encryption that the profile requires',
    how: theySend('unencrypted', secure, { encryption: null }),
    modifier: 'insufficient-message-security',
    reason: /encrypt/,
  },
  {
    what: 'signed with a key whose certificate the profile does not have',
    how: theySend('unknown-signer', signed, {}, { verifyWith: 'stranger' }),
    modifier: 'authentication-failed',
    reason: /certificate/,
  },
  {
    what: 'signed with such a key, and is told so in an asynchronous receipt',
    how: theySend('unknown-signer-later', { ...signed, receipt: later }, {}, { verifyWith: 'stranger' }),
    modifier: 'authentication-failed',
    reason: /certificate/,
  },
  {
    what: 'encrypted, and signed with such a key within, without its certificate: nobody learns how far it was opened',
    how: theySend('unknown-signer-within', secure, {}, { verifyWith: 'stranger' }),
    modifier: 'decryption-failed',
    reason: /certificate/,
  },
  {
    what: 'encrypted to a certificate that is not ours, with which it does not verify our receipt either',
    how: theySend('not-for-us', secure, { partnerCertificate: 'stranger' }),
    modifier: 'decryption-failed',
    reason: /certificate/,
    logged: /Failed to verify signature of received MDN/,
  },
  {
    what: 'under an AS2 name that no profile has',
    how: theySend('nobody', secure, {}, { profile: { as2id: 'SOMEBODY-ELSE' } }),
    modifier: 'unknown-trading-relationship',
    reason: /^No AS2 profiles for OA-nobody and WAYBILL$/,
    logged: /received MDN|Failed to verify signature of received MDN/,
  },
]

/** OpenAS2 sends it, we take it, and OpenAS2 does not take our receipt: it is not right about that. */
interface TheyDisagree {
  readonly name: string
  readonly what: string
  readonly combination: Combination
  readonly more?: Partial<Case>
  readonly content?: Buffer
  readonly because: string
  /** What OpenAS2 logs; default that the MIC differs, with ours. */
  readonly logged?: RegExp
}

const eightBits = { partnership: { encoding: '8bit' } }
const withAttribute = (name: string, value: string, encoding = '8bit'): Partial<Case> => ({
  partnership: { encoding, attributes: { [name]: value } },
})

const THEY_DISAGREE: readonly TheyDisagree[] = [
  {
    name: 'only-compressed',
    what: 'compressed alone',
    combination: { compression: 'BeforeSigning', receipt: 'signed' },
    because: 'the MIC covers the headers (RFC 5402 §4.3), for OpenAS2 it does not',
  },
  {
    name: 'bare-encrypted',
    what: 'text with bare line feeds, encrypted, not signed',
    combination: encrypted,
    more: eightBits,
    content: BARE_LINE_FEEDS,
    because: 'it hashes CRLF that it does not send, unless prevent_canonicalization_for_mic is set',
  },
  {
    name: 'bare-clear',
    what: 'text with bare line feeds in clear',
    combination: { receipt: 'signed' },
    more: eightBits,
    content: BARE_LINE_FEEDS,
    because: 'it hashes CRLF that it does not send, unless prevent_canonicalization_for_mic is set',
  },
  {
    name: 'bare-signed',
    what: 'text with bare line feeds, signed, with prevent_canonicalization_for_mic',
    combination: signed,
    more: withAttribute('prevent_canonicalization_for_mic', 'true'),
    content: BARE_LINE_FEEDS,
    because: 'it hashes bare line feeds and signs CRLF',
  },
  {
    name: 'no-transfer-encoding',
    what: 'without a Content-Transfer-Encoding of its own',
    combination: signed,
    more: withAttribute('set_transfer_encoding_on_inital_body_part', 'false'),
    because: 'it hashes the part before that header is added',
  },
  {
    name: 'other-digest',
    what: 'signed with SHA-512, with SHA-256 in its wish for a receipt',
    combination: { signature: 'sha512', receipt: 'signed' },
    more: { partnership: { receipt: { signed: true, asynchronous: false, digest: 'sha256' } } },
    because: 'the digest of the signature counts (RFC 4130 §7.3.1), for OpenAS2 that of the wish',
    logged: /^.*MIC algorithm returned by partner is not the same as the algorithm requested.*$/m,
  },
  {
    name: 'names-with-spaces',
    what: 'between AS2 names with spaces, with a receipt in the answer',
    combination: secure,
    more: { as2Id: 'Open AS2', ourAs2Id: 'Waybill of Acme' },
    because: 'names with spaces are quoted (RFC 4130 §6.2), OpenAS2 2 does not unquote them there',
    logged: /Partnership not found: .*as2_id="Waybill of Acme"/,
  },
]

/** We send it, and OpenAS2 does not take it, or has no key for it. */
interface TheyRefuse {
  readonly name: string
  readonly what: string
  /** Default signed and encrypted, with a signed receipt in the answer. */
  readonly combination?: Combination
  readonly more: Partial<Case>
  readonly error: RegExp
  /** Of our receipt. */
  readonly receipt: 'refused' | 'overdue'
}

const theyCannot = (name: string, what: string, profile: Case['profile']): TheyRefuse => ({
  name,
  what,
  more: { profile },
  error: /^The partner refused the message: .*decryption-failed$/,
  receipt: 'refused',
})

const THEY_REFUSE: readonly TheyRefuse[] = [
  theyCannot('oaep-sha1', 'with OAEP and SHA-1', { key_transport: 'OAEP', oaep_digest: 'SHA1' }),
  theyCannot('oaep-sha256', 'with OAEP and SHA-256', { key_transport: 'OAEP', oaep_digest: 'SHA256' }),
  theyCannot('base64', 'with an encrypted body in base64', { content_transfer_encoding: 'base64' }),
  {
    name: 'gcm',
    what: 'encrypted with AES-GCM, which it stores as it came and confirms with the MIC of that',
    more: { profile: { encryption_algorithm: 'AES256-GCM' } },
    error: /^The MIC of the receipt differs from the MIC of the message that was sent$/,
    receipt: 'refused',
  },
  {
    name: 'wrong-recipient',
    what: 'encrypted to a certificate that is not its own',
    more: { encryptTo: 'stranger' },
    error: /^The partner refused the message: .*decryption-failed$/,
    receipt: 'refused',
  },
  {
    name: 'wrong-signer',
    what: 'signed with a key that it does not know',
    more: { partnership: { partnerCertificate: 'stranger' } },
    error: /^The partner refused the message: .*integrity-check-failed$/,
    receipt: 'refused',
  },
  {
    name: 'wrong-signer-later',
    what: 'signed with a key that it does not know, of which an asynchronous receipt tells',
    combination: { ...secure, receipt: later },
    more: { partnership: { partnerCertificate: 'stranger' } },
    error: /^The partner refused the message: .*integrity-check-failed$/,
    receipt: 'refused',
  },
  {
    name: 'forged-receipt',
    what: 'to one that signs its receipt with a key that the profile does not know: that receipt proves nothing',
    more: { verifyWith: 'stranger' },
    error: /is not the receipt/,
    receipt: 'refused',
  },
  {
    name: 'unknown-name',
    what: 'to a name that it does not know',
    more: { profile: { as2id: 'NOBODY-THERE' } },
    error: /500/,
    receipt: 'overdue',
  },
]

void t.test('what OpenAS2 and the service do not take of each other', async (t) => {
  const exchange = await Exchange.start(t, [
    ...WE_REFUSE.map(({ how }) => how),
    ...THEY_DISAGREE.map(({ name, combination, more }) => bothWays(name, combination, more)),
    ...THEY_REFUSE.map(({ name, combination = secure, more }) => bothWays(name, combination, more)),
  ])
  const drop = (name: string, content: Buffer) => exchange.openAs2.drop(name, FILE_NAME, content)
  const sent = new Map<string, string>()
  await Promise.all([
    ...WE_REFUSE.map(({ how }) => drop(how.name, CONTENT)),
    ...THEY_DISAGREE.map(({ name, content = CONTENT }) => drop(name, content)),
    ...THEY_REFUSE.map(async ({ name }) => sent.set(name, await exchange.send(name, FILE_NAME, CONTENT))),
  ])
  for (const each of WE_REFUSE)
    await t.test(`OpenAS2 sends ${each.what}: ${each.modifier}`, async (t) => refusedByUs(t, exchange, each))
  for (const each of THEY_DISAGREE)
    await t.test(`OpenAS2 sends ${each.what}, and does not take our receipt: ${each.because}`, async (t) =>
      disagreed(t, exchange, each),
    )
  for (const each of THEY_REFUSE)
    await t.test(`we send ${each.what}`, async (t) => {
      const message = await exchange.settled(sent.get(each.name) ?? '')
      t.equal(message.status, 'Error')
      t.match(message.deliveries, [{ state: 'failed', last_error: each.error }])
      t.match(message.protocols.as2?.receipt, { state: each.receipt })
    })
})

async function refusedByUs(t: Test, exchange: Exchange, refused: WeRefuse): Promise<void> {
  const { how, modifier, reason } = refused
  const message = await exchange.withReceipt((await exchange.settledUnder(as2IdOf(how))).id)
  const disposition = `automatic-action/MDN-sent-automatically; processed/error: ${modifier}`
  t.equal(message.status, 'Refused')
  t.match(message.protocols.as2?.receipt, { state: 'sent', disposition })
  t.ok(
    message.history.some(({ text = '' }) => reason.test(text)),
    'the history tells why',
  )
  t.ok((await exchange.payload(message.id, 'received')).length > 0, 'what came is kept')
  await exchange.logged(refused.logged ?? new RegExp(`received MDN \\[${disposition}\\] ${idIn(message)}`))
  await exchange.givenUpByOpenAs2(how.name)
}

async function disagreed(t: Test, exchange: Exchange, { name, logged }: TheyDisagree): Promise<void> {
  const [settled] = await exchange.settledFrom(name)
  const message = await exchange.withReceipt(settled?.id ?? '')
  t.equal(message.status, 'Delivered')
  const disposition = 'automatic-action/MDN-sent-automatically; processed'
  t.match(message.protocols.as2?.receipt, { state: 'sent', disposition })
  const mic = literal(message.protocols.as2?.mic ?? '')
  await exchange.logged(logged ?? new RegExp(`MIC not matched, .* return MIC: ${mic}, .* ${idIn(message)}`))
  await exchange.givenUpByOpenAs2(name)
}

const literal = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')

/** As OpenAS2 logs it. */
const idIn = ({ protocols }: MessageView): string => `\\[${literal(protocols.as2?.message_id ?? '')}\\]`
