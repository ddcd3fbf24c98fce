import { journaled, JOURNAL_LIMIT_BYTES, type NewStage } from '../../../storage/exchange/stages.ts'
import type { PayloadStage } from '../../../storage/exchange/states.ts'
import type { PayloadStore } from '../../../storage/payloads/store.ts'
import { readMessage } from '../protocol/read.ts'
import { arrived, steadily } from './steady-answer.ts'
import { takeStreamed } from './streamed-message.ts'
import type { OpenMessage, Verdict } from './verdict.ts'

/** What became of a message and of its bytes: still in memory, or stored already. */
export interface TakenBody {
  readonly verdict: Verdict
  readonly received: Buffer | NewStage
  /** Null of a message that is refused. */
  readonly unpacked: Buffer | NewStage | null
}

/**
 * Opens a message: one that is in memory at once, a stream while it is stored.
 * @throws BeyondMemory when one that is in memory must be taken as a stream; nothing is stored of it then
 */
export async function takeBody(
  body: Buffer | AsyncIterable<Buffer>,
  storing: { readonly store: PayloadStore; readonly messageId: string },
  judge: (open: OpenMessage) => Promise<Verdict>,
): Promise<TakenBody> {
  if (!Buffer.isBuffer(body)) return takeStreamed(body, storing, judge)
  let content: Buffer | null = null
  const verdict = await judge(async (reception, judgeOpened) => {
    const incoming = await steadily(arrived(body.length), () => readMessage({ ...reception, body }))
    judgeOpened(incoming)
    content = incoming.content
    return incoming
  })
  return { verdict, received: body, unpacked: verdict.kind === 'taken' ? content : null }
}

export function bytesOf(stage: Buffer | NewStage): number {
  return Buffer.isBuffer(stage) ? stage.length : stage.size_bytes
}

/** A stage of a message that is about to be committed. */
export async function storedStage(
  stage: PayloadStage,
  bytes: Buffer | NewStage,
  { store, messageId }: { readonly store: PayloadStore; readonly messageId: string },
): Promise<NewStage> {
  if (!Buffer.isBuffer(bytes)) return bytes
  if (bytes.length <= JOURNAL_LIMIT_BYTES) return journaled(stage, bytes)
  const { sizeBytes, sha256 } = await store.put(messageId, stage, bytes)
  return { stage, bytes: null, size_bytes: sizeBytes, sha256 }
}
