import { hash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { headerPairs } from '../../../actors/as2/http-client.ts'
import { PROCESSED } from '../../../actors/as2/protocol/disposition.ts'
import { readMessage } from '../../../actors/as2/protocol/read.ts'
import { composeReceipt } from '../../../actors/as2/protocol/receipt.ts'
import type { TestCertificate } from '../../support/certificates.ts'
import type { Teardown } from '../../support/database.ts'
import { reservePort } from '../../support/reserved-port.ts'

/** What a peer received whole: whether its answer arrived is another matter. */
export interface Arrival {
  /** The AS2 Message-ID, or the `webhook-id` of a post. */
  readonly id: string
  /** Of the content, SHA-256 in hexadecimal. */
  readonly sha256: string
}

export interface Peers {
  readonly as2Url: string
  readonly postUrl: string
  readonly messages: readonly Arrival[]
  readonly posts: readonly Arrival[]
}

/** An AS2 partner, which verifies what it gets and signs its receipts, and a server that takes every post. */
export async function startPeers(
  t: Teardown,
  keys: { readonly ours: TestCertificate; readonly theirs: TestCertificate },
): Promise<Peers> {
  const messages: Arrival[] = []
  const posts: Arrival[] = []
  const as2Url = await serve(t, async (request, response) => {
    const message = await readMessage({
      headers: headerPairs(request.rawHeaders),
      body: await buffer(request),
      decryption: [keys.theirs],
      signers: [keys.ours.certificate],
      maxContentBytes: 10_000_000,
      require: { signed: true, encrypted: true },
    })
    messages.push({ id: message.messageId ?? '', sha256: hash('sha256', message.content, 'hex') })
    const { certificate, privateKey } = keys.theirs
    const { headers, body } = await composeReceipt({
      as2From: message.as2To,
      as2To: message.as2From,
      messageId: `<receipt-${messages.length}@globex>`,
      date: new Date(),
      originalMessageId: message.messageId,
      disposition: PROCESSED,
      mic: message.mic,
      text: 'It was received.',
      signature: { algorithm: 'SHA256', scheme: 'PKCS1', certificate, privateKey },
      product: 'Partner/1.0',
    })
    response.writeHead(200, headers.flat()).end(body)
  })
  const postUrl = await serve(t, async (request, response) => {
    const body = await buffer(request)
    posts.push({ id: String(request.headers['webhook-id']), sha256: hash('sha256', body, 'hex') })
    response.writeHead(204).end()
  })
  return { as2Url, postUrl, messages, posts }
}

async function serve(
  t: Teardown,
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<string> {
  const listener: RequestListener = (request, response) => {
    // A sender that was killed in the middle has sent nothing.
    answer(request, response).catch(() => response.destroy())
  }
  const server = createServer(listener)
  const place = await reservePort()
  server.listen(place)
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
  })
  return `http://${place.host}:${place.port}/in`
}
