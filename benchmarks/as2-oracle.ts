import { randomBytes, randomInt } from 'node:crypto'
import { arrived, steadily, type Arrival } from '../actors/as2/receiving/steady-answer.ts'
import { composeMessage, type Outgoing } from '../actors/as2/protocol/compose.ts'
import type { HeaderList } from '../runtime/mime/headers.ts'
import { readMessage } from '../actors/as2/protocol/read.ts'
import { composeReceipt } from '../actors/as2/protocol/receipt.ts'
import { dispositionOf, Refusal } from '../actors/as2/protocol/refusal.ts'
import { readMessageStream } from '../actors/as2/protocol/stream/read-message-stream.ts'
import { CHUNK_BYTES, IN_MEMORY_BYTES } from '../actors/as2/protocol/stream/limits.ts'
import { inPieces } from '../actors/as2/protocol/stream/pieces.ts'
import { makeCertificate } from '../test/support/certificates.ts'
import { hostileEnvelope } from '../test/support/hostile-envelope.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'
import { mean, welch } from './welch.ts'

/**
 * Whether the time in which an encrypted message is refused tells why: messages that fail for different reasons are
 * opened and answered by turns, and the times of each pair of reasons are held against each other by Welch's t-test.
 * What counts is the time of the answer; of the work alone, which nobody outside sees, the means and the largest t are
 * shown. Messages that stream are measured from their first bytes on: who sends them sees how fast they are taken, too.
 */

const SAMPLES = 5_000
/** Of each sample of a message in memory so many of one that streams, which takes longer. */
const STREAMED_SHARE = 0.1
const WARM_UP_SHARE = 0.1
const CONTENT_BYTES = 10_000
const STREAMED_BYTES = 3_000_000
/** Messages of each kind, so that no kind is known by the one buffer that it lies in. */
const VARIANTS = 32
/** Above it the times count as different, as in the leakage tests of ISO/IEC 17825. */
const LIMIT_T = 4.5

const sender = makeCertificate({ commonName: 'Sender' })
const receiver = makeCertificate({ commonName: 'Receiver' })
const stranger = makeCertificate({ commonName: 'Stranger' })
const receiptSigning = { algorithm: 'SHA256', scheme: 'PKCS1', ...receiver } as const

const KINDS = ['bad_padding', 'wrong_key_length', 'bad_mime', 'bad_signature', 'bad_content'] as const

type Kind = (typeof KINDS)[number]

interface Sent {
  readonly headers: HeaderList
  readonly body: Buffer
}

export async function as2Oracle(options: ScenarioOptions): Promise<Figures> {
  const samples = options.messages ?? SAMPLES
  const small = await measure(samples, options.sizeBytes ?? CONTENT_BYTES)
  const streamed = await measure(Math.ceil(samples * STREAMED_SHARE), STREAMED_BYTES)
  const figures = Object.entries(streamed.figures).map(([name, value]) => [`streamed_${name}`, value])
  return {
    parameters: { ...small.parameters, streamed_bytes: STREAMED_BYTES },
    figures: { ...small.figures, ...(Object.fromEntries(figures) as Record<string, number>) },
    failures: [...(small.failures ?? []), ...(streamed.failures ?? []).map((each) => `streamed: ${each}`)],
  }
}

async function measure(samples: number, sizeBytes: number): Promise<Figures> {
  const pools = new Map<Kind, readonly Sent[]>()
  for (const kind of KINDS) pools.set(kind, await poolOf(kind, sizeBytes))
  await refuse(await hostileMessage('bad_signature', sizeBytes))
  const work = new Map<Kind, number[]>(KINDS.map((kind) => [kind, []]))
  const answers = new Map<Kind, number[]>(KINDS.map((kind) => [kind, []]))
  for (let round = -Math.ceil(samples * WARM_UP_SHARE); round < samples; round++) {
    for (const kind of shuffled(KINDS)) {
      const pool = pools.get(kind) ?? []
      const sent = pool[randomInt(pool.length)]
      if (sent === undefined) throw new Error(`no message of the kind ${kind}`)
      const times = await refuse(sent)
      if (round < 0) continue
      work.get(kind)?.push(times.workUs)
      answers.get(kind)?.push(times.answerUs)
    }
  }
  return report({ work, answers }, { samples, sizeBytes })
}

/** Opens a message and makes its receipt, as a receiver does; the work is that without the time that it waits. */
async function refuse({ headers, body }: Sent): Promise<{ workUs: number; answerUs: number }> {
  const start = performance.now()
  let opened = start
  const isStreamed = body.length > IN_MEMORY_BYTES
  const reception = {
    headers,
    decryption: [receiver],
    signers: [sender.certificate],
    maxContentBytes: 2 * STREAMED_BYTES,
    require: { signed: true, encrypted: true },
  }
  const open = (): Promise<unknown> =>
    isStreamed
      ? readMessageStream({
          ...reception,
          body: comingIn(body, arrival),
          again: () => inPieces([body], CHUNK_BYTES),
          sink: passOver,
        })
      : readMessage({ ...reception, body })
  const arrival = arrived(body.length)
  const refusal = await steadily(arrival, async () => {
    try {
      return await open()
    } finally {
      opened = performance.now()
    }
  }).catch((thrown: unknown) => thrown)
  const due = performance.now()
  if (!(refusal instanceof Refusal)) throw new Error('a hostile message was not refused')
  await composeReceipt({
    as2From: 'receiver',
    as2To: 'sender',
    messageId: '<receipt@receiver>',
    date: new Date(),
    originalMessageId: '<1@sender>',
    disposition: dispositionOf(refusal.modifier),
    mic: refusal.mic,
    text: refusal.message,
    signature: receiptSigning,
    product: 'Waybill/1',
  })
  const answered = performance.now()
  return { workUs: (opened - start + answered - due) * 1_000, answerUs: (answered - start) * 1_000 }
}

/** As it is asked for, as fast as its reader takes it. */
async function* comingIn(body: Buffer, arrival: Arrival): AsyncGenerator<Buffer> {
  for await (const piece of inPieces([body], CHUNK_BYTES)) {
    arrival.lastMs = performance.now()
    yield piece
  }
}

async function passOver(content: AsyncIterable<Buffer>): Promise<void> {
  for await (const chunk of content) void chunk
}

async function poolOf(kind: Kind, sizeBytes: number): Promise<readonly Sent[]> {
  const pool: Sent[] = []
  for (let variant = 0; variant < VARIANTS; variant++) pool.push(await hostileMessage(kind, sizeBytes))
  return pool
}

async function hostileMessage(kind: Kind, sizeBytes: number): Promise<Sent> {
  // One that is sound, but a stranger's, is told.
  const { privateKey } = kind === 'bad_signature' ? stranger : sender
  const outgoing: Outgoing = {
    as2From: 'sender',
    as2To: 'receiver',
    messageId: '<1@sender>',
    subject: null,
    date: new Date(),
    fileName: 'a.edi',
    contentType: 'application/edifact',
    content: randomBytes(sizeBytes),
    compression: 'BeforeSigning',
    signature: { algorithm: 'SHA256', scheme: 'PKCS1', certificate: sender.certificate, privateKey },
    encryption: null,
    receipt: { signed: true, asyncUrl: null },
    product: 'Sender/1',
  }
  const { headers, body } = await composeMessage(outgoing)
  const type = new Map(headers).get('Content-Type') ?? ''
  const entity = Buffer.concat([Buffer.from(`Content-Type: ${type}\r\n\r\n`), body])
  const middle = entity.length >> 1
  if (kind === 'bad_content') entity[middle] = (entity[middle] ?? 0) ^ 1
  const plain = kind === 'bad_mime' ? randomBytes(entity.length) : entity
  const fault = kind === 'bad_padding' || kind === 'wrong_key_length' ? kind : null
  return {
    headers: [
      ['AS2-From', 'sender'],
      ['AS2-To', 'receiver'],
      ['Message-ID', '<1@sender>'],
      ['Content-Type', 'application/pkcs7-mime; smime-type=enveloped-data'],
    ],
    body: hostileEnvelope(plain, receiver.certificate, fault),
  }
}

function shuffled<T>(values: readonly T[]): T[] {
  const order = [...values]
  for (let at = order.length - 1; at > 0; at--) {
    const other = randomInt(at + 1)
    const [one, two] = [order[at], order[other]]
    if (one === undefined || two === undefined) break
    order[at] = two
    order[other] = one
  }
  return order
}

type Times = ReadonlyMap<Kind, readonly number[]>

function report(
  { work, answers }: { readonly work: Times; readonly answers: Times },
  { samples, sizeBytes }: { readonly samples: number; readonly sizeBytes: number },
): Figures {
  const figures: Record<string, number> = {}
  const failures: string[] = []
  for (const [kind, values] of work) figures[`work_${kind}_mean_us`] = mean(values)
  figures['work_largest_t'] = Math.max(...pairsOf(work).map(({ t }) => Math.abs(t)))
  for (const [kind, values] of answers) figures[`${kind}_mean_us`] = mean(values)
  for (const { pair, t } of pairsOf(answers)) {
    figures[`t_${pair}`] = t
    if (Math.abs(t) > LIMIT_T) failures.push(`t of ${pair} is ${t.toFixed(1)}, and must be within ${LIMIT_T}`)
  }
  return { parameters: { samples, bytes: sizeBytes, limit_t: LIMIT_T }, figures, failures }
}

function pairsOf(times: Times): readonly { readonly pair: string; readonly t: number }[] {
  const kinds = [...times]
  return kinds.flatMap(([one, first], at) =>
    kinds
      .slice(at + 1)
      .map(([other, second]) => ({ pair: `${one}_against_${other}`, t: welch(first, second) })),
  )
}
