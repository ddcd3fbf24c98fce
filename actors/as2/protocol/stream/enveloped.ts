/** EnvelopedData (RFC 5652 §6) and AuthEnvelopedData (RFC 5083), opened as they come. */
import { contextTag, TAG } from '../asn1/tag.ts'
import { checkSealedTag, readContentAlgorithm } from '../cms/content-encryption.ts'
import type { Authentication } from '../cms/content-encryption.ts'
import { authenticationOf, cannotDecrypt, contentKeyOf, START_BYTES } from '../cms/enveloped-data.ts'
import type { EnvelopeType } from '../cms/enveloped-data.ts'
import { findRecipients } from '../cms/recipient.ts'
import { decryptHere } from '../cms/rsa-decryption.ts'
import type { DecryptionKey } from '../cms/encryption-keys.ts'
import type { BerStream } from './ber-stream.ts'
import { ByteSource } from './byte-source.ts'
import { settled } from './conclusion.ts'
import type { Conclusion } from './conclusion.ts'
import { contentDecipher } from './content-decipher.ts'
import type { Inside } from './inside.ts'

const NOTHING = Buffer.alloc(0)

export interface EnvelopeOpening {
  readonly type: EnvelopeType
  readonly keys: readonly DecryptionKey[]
  /** Of an earlier reading of the same message. */
  readonly known: Authentication | null
  /** To be called when only another reading tells whether the content is genuine. */
  readonly ask: (authentication: Authentication) => void
  /** To be called before the content is deciphered. */
  readonly begin: () => void
  readonly open: Inside
}

/** `ber` stands in the fields of the EnvelopedData. */
export async function openEnveloped(ber: BerStream, opening: EnvelopeOpening): Promise<Conclusion> {
  const { type, keys, known, ask, begin, open } = opening
  await ber.open(TAG.INTEGER)
  await ber.close()
  await ber.skipOptional(contextTag(0, 'constructed'))
  const recipients = findRecipients(await ber.element(TAG.SET), keys)
  await ber.open(TAG.SEQUENCE)
  ber.children()
  await ber.open(TAG.OBJECT_IDENTIFIER)
  await ber.close()
  const content = readContentAlgorithm(await ber.element(TAG.SEQUENCE))
  const { algorithm } = content
  if ((await ber.nextTag()) === undefined) checkSealedTag(0)
  await ber.open()
  checkSealedTag(ber.tag)
  begin()
  const ciphertext = new ByteSource(ber.octets())
  const start = recipients.length > 1 ? await startOf(ciphertext) : NOTHING
  const { key, usable, method } = await contentKeyOf(recipients, { ...content, start }, decryptHere)
  const tagPlace = type === 'authEnvelopedData' ? 'field' : 'appended'
  const decipher = contentDecipher({ ...content, key, tagPlace, known })
  const plain = new ByteSource(decipher.plain(ciphertext))
  const conclude = await settled(plain, open(plain))
  await ber.close()
  const authentication = type === 'authEnvelopedData' ? await readAuthentication(ber) : null
  // What is broken around the content comes before what is wrong with it.
  await ber.closeAll()
  const verdict = decipher.judge(authentication)
  // Whatever the key is: whether it is the right one must not show in the readings.
  if (verdict === 'unknown' && authentication !== null) ask(authentication)
  if (!usable || verdict === false) throw cannotDecrypt()
  return (progress) => {
    progress.encryption = { algorithm, keyTransport: method }
    return conclude(progress)
  }
}

async function startOf(ciphertext: ByteSource): Promise<Buffer> {
  await ciphertext.gather(START_BYTES)
  const start = ciphertext.take(START_BYTES)
  ciphertext.unshift(start)
  return start
}

async function readAuthentication(ber: BerStream): Promise<Authentication> {
  const tag = contextTag(1, 'constructed')
  const attributes = (await ber.nextTag()) === tag ? await ber.element(tag) : null
  return authenticationOf(attributes, (await ber.element(TAG.OCTET_STRING)).octets())
}
