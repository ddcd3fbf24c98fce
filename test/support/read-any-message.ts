import { readMessageStream } from '../../actors/as2/protocol/stream/read-message-stream.ts'
import type { Incoming, ReceivedMessage } from '../../actors/as2/protocol/incoming.ts'

/** Opens a message of any size, as a partner with much memory would. */
export async function readAnyMessage({ body, ...reception }: ReceivedMessage): Promise<Incoming> {
  const taken: Buffer[] = []
  const facts = await readMessageStream({
    ...reception,
    body: whole(body),
    again: () => whole(body),
    sink: async (content) => {
      for await (const chunk of content) taken.push(Buffer.from(chunk))
    },
  })
  return { ...facts, content: Buffer.concat(taken) }
}

async function* whole(body: Buffer): AsyncGenerator<Buffer> {
  yield Buffer.from(body)
}
