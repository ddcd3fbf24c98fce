import { micEquals, type Mic } from '../protocol/mic.ts'
import { readMessage } from '../protocol/read.ts'
import type { IncomingFacts, Reception } from '../protocol/incoming.ts'
import { Refusal } from '../protocol/refusal.ts'
import { readMessageStream } from '../protocol/stream/read-message-stream.ts'
import type { PayloadStore } from '../../../storage/payloads/store.ts'
import { arrived, steadily } from './steady-answer.ts'
import { storedAgain } from './streamed-message.ts'
import { bytesOf, type TakenBody } from './taken-body.ts'

/** A message that was refused, with what it can be opened once more. */
export interface RefusedMessage extends Pick<Reception, 'headers' | 'decryption' | 'maxContentBytes'> {
  readonly received: TakenBody['received']
  /** Where its body lies, if it was too large for memory. */
  readonly store: PayloadStore
  readonly messageId: string
}

/**
 * Whether a message bears an intact signature by this certificate, over content of this MIC. It is opened anew for that,
 * with no other certificate: it costs as much as the first time, whatever is wrong with it.
 */
export async function isSignedAgain(
  message: RefusedMessage,
  by: { readonly certificate: Buffer; readonly mic: Mic },
): Promise<boolean> {
  const arrival = arrived(bytesOf(message.received))
  try {
    const { signer, mic } = await steadily(arrival, () => open(message, by.certificate))
    return signer !== null && micEquals(mic, by.mic)
  } catch (thrown) {
    if (thrown instanceof Refusal) return false
    throw thrown
  }
}

async function open(message: RefusedMessage, certificate: Buffer): Promise<IncomingFacts> {
  const { received, headers, decryption, maxContentBytes, store, messageId } = message
  const require = { signed: true, encrypted: false }
  const reception = { headers, decryption, signers: [certificate], maxContentBytes, require }
  if (Buffer.isBuffer(received)) return readMessage({ ...reception, body: received })
  const again = () => storedAgain(store, messageId, received)
  return readMessageStream({ ...reception, body: await again(), again, sink: passOver })
}

async function passOver(content: AsyncIterable<Buffer>): Promise<void> {
  for await (const chunk of content) void chunk
}
