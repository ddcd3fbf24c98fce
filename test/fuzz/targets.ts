/** What is fed: each parser that bytes of strangers reach, with the errors that it may answer with. */
import { isDeepStrictEqual } from 'node:util'
import { HeaderFields, parseHeaderBlock } from '../../runtime/mime/headers.ts'
import { decodeHeaderText } from '../../runtime/mime/header-text.ts'
import { AttachmentList } from '../../runtime/mime/attachment-list.ts'
import { fileNameOf, parseParameters } from '../../runtime/mime/parameters.ts'
import { Asn1Error } from '../../actors/as2/protocol/asn1/asn1-error.ts'
import { openCompressedData } from '../../actors/as2/protocol/cms/compressed-data.ts'
import { readContentInfo } from '../../actors/as2/protocol/cms/content-info.ts'
import { formatEnvelopedData, openEnvelopedData } from '../../actors/as2/protocol/cms/enveloped-data.ts'
import { CONTENT_TYPE } from '../../actors/as2/protocol/cms/oids.ts'
import { readSignedData } from '../../actors/as2/protocol/cms/signed-data.ts'
import { verifySignature } from '../../actors/as2/protocol/cms/verification.ts'
import { readEnvelope } from '../../actors/as2/protocol/envelope.ts'
import {
  cmsBytes,
  decodeBody,
  formatEntity,
  MimeError,
  parseEntity,
  splitMultipart,
} from '../../actors/as2/protocol/mime.ts'
import { claimedMessageId, isReceipt, readReceipt } from '../../actors/as2/protocol/receipt.ts'
import { Refusal } from '../../actors/as2/protocol/refusal.ts'
import { inMemory, streamed } from '../actors/as2/protocol/stream/both-readers.ts'
import type { Dice } from './dice.ts'
import { MAX_BYTES, mutateBytes } from './mutate-bytes.ts'
import { mutateBer } from './mutate-ber.ts'
import { mutateHeaders, mutateLines } from './mutate-lines.ts'
import { ecReceiver, encryptedSeeds, openSeeds, receiver, receiptSeeds, sender, type Seed } from './seeds.ts'

const MAX_CONTENT_BYTES = 100_000
const MAX_PARTS = 20
const RSA_KEYS = [receiver]
const EC_KEYS = [ecReceiver]
const SIGNERS = [sender.certificate]

export interface Target {
  readonly name: string
  /** Of a hundred executions. */
  readonly share: number
  readonly prepare: (dice: Dice) => Promise<Seed>
  /** Throws nothing but what `isAnswer` knows. */
  readonly run: (input: Seed, dice: Dice) => void | Promise<void>
}

/** Whether an error is an answer to bad input, and not a fault of ours. */
export function isAnswer(error: unknown): boolean {
  return error instanceof Refusal || error instanceof MimeError || error instanceof Asn1Error
}

export async function makeTargets(): Promise<Target[]> {
  const [open, encrypted, receipts] = await Promise.all([openSeeds(), encryptedSeeds(), receiptSeeds()])
  const all = [...open, ...encrypted, ...receipts]
  const cms = [...open, ...encrypted].filter(({ headers }) => isCms(headers))
  return [
    { name: 'headers', share: 27, prepare: from(all, mutateHeaders), run: readHeaders },
    { name: 'MIME', share: 25, prepare: from(all, mutateText), run: readMime },
    { name: 'CMS', share: 25, prepare: from(cms, mutateCms), run: readCms },
    { name: 'receipts', share: 18, prepare: from(receipts, mutateMessage), run: readAsReceipt },
    {
      name: 'messages, in memory and as a stream',
      share: 3,
      prepare: from(open, mutateMessage),
      run: readBoth,
    },
    { name: 'encrypted messages', share: 1, prepare: from(encrypted, mutateMessage), run: readBoth },
    { name: 'what was encrypted', share: 1, prepare: from(open, encryptMutated), run: readBoth },
  ]
}

function from(
  seeds: readonly Seed[],
  mutate: (seed: Seed, dice: Dice) => Seed,
): (dice: Dice) => Promise<Seed> {
  return async (dice) => {
    let seed = dice.one(seeds)
    for (let times = dice.below(3); times >= 0; times -= 1) seed = mutate(seed, dice)
    return { headers: seed.headers, body: seed.body.subarray(0, MAX_BYTES) }
  }
}

function mutateText(seed: Seed, dice: Dice): Seed {
  if (dice.once(3)) return mutateHeaders(seed, dice)
  return { ...seed, body: dice.once(4) ? mutateBytes(seed.body, dice) : mutateLines(seed.body, dice) }
}

function mutateCms(seed: Seed, dice: Dice): Seed {
  return { ...seed, body: dice.once(4) ? mutateBytes(seed.body, dice) : mutateBer(seed.body, dice) }
}

function mutateMessage(seed: Seed, dice: Dice): Seed {
  if (isCms(seed.headers)) return dice.once(4) ? mutateHeaders(seed, dice) : mutateCms(seed, dice)
  return dice.once(3) ? mutateSignature(seed, dice) : mutateText(seed, dice)
}

/** Changes the structure of the CMS object that stands in base64 at the end of multipart/signed. */
function mutateSignature(seed: Seed, dice: Dice): Seed {
  const text = seed.body.toString('latin1')
  const start = text.lastIndexOf('\r\n\r\n') + 4
  const end = text.indexOf('\r\n--', start)
  if (start < 4 || end < 0) return mutateText(seed, dice)
  const changed = mutateBer(Buffer.from(text.slice(start, end), 'base64'), dice).toString('base64')
  return { ...seed, body: Buffer.from(text.slice(0, start) + changed + text.slice(end), 'latin1') }
}

/** What is broken inside an encryption that is whole. */
function encryptMutated(seed: Seed, dice: Dice): Seed {
  const { headers, body } = mutateMessage(seed, dice)
  const isContent = ([name]: readonly [string, string]): boolean => name.toLowerCase().startsWith('content-')
  const sealed = formatEnvelopedData(formatEntity(headers.filter(isContent), body.subarray(0, MAX_BYTES)), {
    algorithm: dice.one(['AES128-CBC', 'AES128-GCM']),
    keyTransport: 'PKCS1',
    certificate: ecReceiver.certificate,
  })
  const type = ['Content-Type', 'application/pkcs7-mime'] as const
  return { headers: [...headers.filter((field) => !isContent(field)), type], body: sealed.bytes }
}

function isCms(headers: Seed['headers']): boolean {
  return headers.some(([name, value]) => name === 'Content-Type' && value.includes('pkcs7-mime'))
}

function readHeaders({ headers }: Seed): void {
  const block = parseHeaderBlock(
    Buffer.from(headers.map(([name, value]) => `${name}: ${value}\r\n`).join('') + '\r\n', 'latin1'),
  )
  const fields = block?.fields ?? new HeaderFields(headers)
  for (const [, value] of headers) {
    parseParameters(value)
    decodeHeaderText(value)
    fileNameOf(value, value)
  }
  fileNameOf(fields.get('content-disposition'), fields.get('content-type'))
  readEnvelope(headers)
}

function readMime({ headers, body }: Seed): void {
  const type = new HeaderFields(headers).get('content-type') ?? ''
  parseEntity(body, 'payload')
  const list = AttachmentList.of(type)
  list?.write(body)
  list?.end()
  for (const part of splitMultipart(type, body, MAX_PARTS)) decodeBody(parseEntity(part, 'part'))
}

async function readCms({ headers, body }: Seed, dice: Dice): Promise<void> {
  const bytes = cmsBytes({ headers: new HeaderFields(headers), body, raw: body })
  const { contentType, content } = readContentInfo(bytes)
  switch (contentType) {
    case CONTENT_TYPE.signedData: {
      const signed = readSignedData(content)
      verifySignature(signed, [signed.content ?? body], SIGNERS)
      return
    }
    case CONTENT_TYPE.compressedData:
      await openCompressedData(content, MAX_CONTENT_BYTES)
      return
    default: {
      // RSA takes most of the time of all parsers together.
      const keys = dice.once(50) ? RSA_KEYS : EC_KEYS
      const type = contentType === CONTENT_TYPE.authEnvelopedData ? 'authEnvelopedData' : 'envelopedData'
      await openEnvelopedData(type, content, keys)
    }
  }
}

async function readAsReceipt({ headers, body }: Seed): Promise<void> {
  if (isReceipt(headers, body)) claimedMessageId(headers, body)
  await readReceipt({ headers, body, signers: SIGNERS })
}

async function readBoth({ headers, body }: Seed, dice: Dice): Promise<void> {
  const message = {
    headers,
    body,
    decryption: [...RSA_KEYS, ...EC_KEYS],
    signers: SIGNERS,
    maxContentBytes: MAX_CONTENT_BYTES,
  }
  const chunking = Array.from({ length: 1 + dice.below(3) }, () => 1 + dice.below(4_000))
  const [expected, found] = [await inMemory(message), await streamed(message, chunking)]
  // Of two faults each reader names the one that it comes to first.
  if (expected.content === null && found.content === null) return
  if (!isDeepStrictEqual(found, expected)) throw new Error('One reader takes what the other one does not')
}
