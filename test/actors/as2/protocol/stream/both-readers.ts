/** The same message read in memory and as a stream: what the two find must be the same. */
import { isDeepStrictEqual } from 'node:util'
import { readMessage } from '../../../../../actors/as2/protocol/read.ts'
import type { ReceivedMessage } from '../../../../../actors/as2/protocol/incoming.ts'
import { Refusal } from '../../../../../actors/as2/protocol/refusal.ts'
import { readMessageStream } from '../../../../../actors/as2/protocol/stream/read-message-stream.ts'

/** What became of a message: what it says, or why it is refused. */
export type Outcome = Readonly<Record<string, unknown>> & { readonly content: Buffer | null }

/** Lengths of chunks, used one after the other and again from the first. */
export type Chunking = readonly number[]

export async function* chunksOf(bytes: Buffer, chunking: Chunking): AsyncGenerator<Buffer> {
  let at = 0
  for (let turn = 0; at < bytes.length; turn++) {
    const length = Math.max(1, chunking[turn % chunking.length] ?? bytes.length)
    yield bytes.subarray(at, at + length)
    at += length
  }
}

export async function inMemory(message: ReceivedMessage): Promise<Outcome> {
  return outcomeOf(async () => ({ ...(await readMessage(message)) }))
}

/** Fails when a refused message's content came to its end. */
export async function streamed(message: ReceivedMessage, chunking: Chunking): Promise<Outcome> {
  const { body, ...reception } = message
  const taken: Buffer[] = []
  let isWhole = false
  const outcome = await outcomeOf(async () => {
    const facts = await readMessageStream({
      ...reception,
      body: chunksOf(body, chunking),
      again: () => chunksOf(body, chunking),
      sink: async (content) => {
        for await (const chunk of content) taken.push(Buffer.from(chunk))
        isWhole = true
      },
    })
    return { ...facts, content: Buffer.concat(taken) }
  })
  if (isWhole !== (outcome.content !== null)) throw new Error('The content ended, though it was refused')
  return outcome
}

async function outcomeOf(read: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await read()
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) throw thrown
    const { modifier, reason, mic } = thrown
    return { content: null, modifier, reason, mic }
  }
}

/** Throws with both outcomes when they differ. */
export async function assertSame(message: ReceivedMessage, chunking: Chunking): Promise<Outcome> {
  const expected = await inMemory(message)
  const found = await streamed(message, chunking)
  if (isDeepStrictEqual(found, expected)) return expected
  throw new Error(`In memory ${JSON.stringify(told(expected))}\nstreamed ${JSON.stringify(told(found))}`)
}

function told(outcome: Outcome): object {
  return { ...outcome, content: outcome.content?.toString('base64').slice(0, 2_000) ?? null }
}
