import { Readable } from 'node:stream'
import { youngMemoryKeeper } from '../../../runtime/young-memory.ts'
import type { NewStage } from '../../../storage/exchange/stages.ts'
import type { PayloadStage } from '../../../storage/exchange/states.ts'
import type { PayloadStore } from '../../../storage/payloads/store.ts'
import { Fork } from './fork.ts'
import type { Reception } from '../protocol/incoming.ts'
import { readMessageStream, type StreamedMessage } from '../protocol/stream/read-message-stream.ts'
import { arrived, steadily, type Arrival } from './steady-answer.ts'
import type { OpenMessage, Verdict } from './verdict.ts'

/** Buffers that each chunk comes in on its way: from the socket, deciphered, expanded. */
const COPIES = 2

/** What became of a message whose body was stored while it came in. */
export interface StreamedOutcome {
  readonly verdict: Verdict
  readonly received: NewStage
  /** Null of a message that is refused. */
  readonly unpacked: NewStage | null
}

/**
 * Takes in the body of a message that is too large for memory: in one go it is stored as it came and opened, and what is
 * inside is stored, too. When this answers, all of it lies in the store; when it throws, nothing does.
 */
export async function takeStreamed(
  body: AsyncIterable<Buffer>,
  storing: { readonly store: PayloadStore; readonly messageId: string },
  judge: (open: OpenMessage) => Promise<Verdict>,
): Promise<StreamedOutcome> {
  const { store, messageId } = storing
  const arrival = arrived(0)
  const fork = new Fork(collecting(body, arrival))
  const [raw, read] = [fork.branch(), fork.branch()]
  const put = async (stage: PayloadStage, content: AsyncIterable<Buffer>): Promise<NewStage> => {
    const { sizeBytes, sha256 } = await store.put(messageId, stage, Readable.from(content))
    return { stage, bytes: null, size_bytes: sizeBytes, sha256 }
  }
  const receiving = put('received', raw)
  let unpacked: NewStage | null = null
  const open: OpenMessage = (reception: Reception, judgeOpened: StreamedMessage['judge']) =>
    steadily(arrival, () =>
      readMessageStream({
        ...reception,
        body: read,
        again: async () => storedAgain(store, messageId, await receiving),
        sink: async (content) => void (unpacked = await put('unpacked', content)),
        ...(judgeOpened === undefined ? {} : { judge: judgeOpened }),
      }),
    )
  const judging = judge(open).finally(() => read.close())
  // Where one of the two fails, the other has nothing to go on for.
  await Promise.allSettled(
    [receiving, judging].map((each) =>
      each.catch((thrown: unknown) => (fork.fail(thrown), Promise.reject(thrown))),
    ),
  )
  try {
    const received = await receiving
    const verdict = await judging
    return { verdict, received, unpacked: verdict.kind === 'taken' ? unpacked : null }
  } catch (thrown) {
    await store.delete(messageId).catch(() => undefined)
    fork.check()
    throw thrown
  }
}

/** The same chunks, taken note of; what was made of them and is done with does not pile up. */
async function* collecting(body: AsyncIterable<Buffer>, arrival: Arrival): AsyncGenerator<Buffer> {
  const keepYoung = youngMemoryKeeper()
  for await (const chunk of body) {
    arrival.lastMs = performance.now()
    arrival.sizeBytes += chunk.length
    keepYoung(chunk.length * COPIES)
    yield chunk
  }
}

/** A stored body, read once more and held against its digest. */
export async function storedAgain(
  store: PayloadStore,
  messageId: string,
  { stage, sha256 }: NewStage,
): Promise<AsyncIterable<Buffer>> {
  const stored = await store.open(messageId, stage, { sha256 })
  if (stored === undefined) throw new Error(`The payload ${messageId}/${stage} is not stored any more`)
  return stored as AsyncIterable<Buffer>
}
