import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { headerPairs } from '../../actors/as2/sending/http-client.ts'
import { PROCESSED } from '../../actors/as2/protocol/disposition.ts'
import { readMessage } from '../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../actors/as2/protocol/incoming.ts'
import {
  composeReceipt,
  isReceipt,
  type ComposedReceipt,
  type OutgoingReceipt,
} from '../../actors/as2/protocol/receipt.ts'
import type { TestCertificate } from './certificates.ts'
import type { Teardown } from './database.ts'
import { reservePort } from './reserved-port.ts'

/** A receipt that came in by itself. */
export interface PostedReceipt {
  readonly path: string
  readonly headers: [string, string][]
  readonly body: Buffer
}

/** A partner that sends and takes receipts by themselves, on one address of loopback. */
export interface AsyncPartner {
  readonly url: string
  readonly host: string
  readonly messages: Incoming[]
  readonly receipts: PostedReceipt[]
  /** How it answers a message, and a receipt: with 200 and nothing, unless a test says otherwise. */
  onMessage: (message: Incoming, response: ServerResponse) => Promise<void>
  onReceipt: (receipt: PostedReceipt, response: ServerResponse) => Promise<void>
}

export async function startAsyncPartner(
  t: Teardown,
  keys: { readonly own: TestCertificate; readonly signer: TestCertificate },
): Promise<AsyncPartner> {
  const nothing = async (_: unknown, response: ServerResponse): Promise<void> => void response.end()
  const place = await reservePort()
  const partner: AsyncPartner = {
    url: `http://${place.host}:${place.port}/as2`,
    host: place.host,
    messages: [],
    receipts: [],
    onMessage: nothing,
    onReceipt: nothing,
  }
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const headers = headerPairs(request.rawHeaders)
    const body = await buffer(request)
    if (isReceipt(headers, body)) {
      const receipt = { path: request.url ?? '', headers, body }
      partner.receipts.push(receipt)
      return partner.onReceipt(receipt, response)
    }
    const { own, signer } = keys
    const signers = [signer.certificate]
    const message = await readMessage({ headers, body, decryption: [own], signers, maxContentBytes: 1e7 })
    partner.messages.push(message)
    return partner.onMessage(message, response)
  }
  const server = createServer((request, response) => {
    take(request, response).catch(() => response.destroy())
  })
  server.listen(place)
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
  })
  return partner
}

/** The receipt of a message as its receiver makes it, but for what a test changes. */
export function receiptOf(
  message: Incoming,
  signer: TestCertificate,
  changes: Partial<OutgoingReceipt> = {},
): Promise<ComposedReceipt> {
  const { certificate, privateKey } = signer
  return composeReceipt({
    as2From: message.as2To,
    as2To: message.as2From,
    messageId: '<receipt@globex>',
    date: new Date(),
    originalMessageId: message.messageId,
    disposition: PROCESSED,
    mic: message.mic,
    text: 'A receipt.',
    signature: { algorithm: 'SHA256', scheme: 'PKCS1', certificate, privateKey },
    product: 'Partner/1.0',
    ...changes,
  })
}

/** Posts what was composed. */
export async function post(
  url: string,
  { headers, body }: ComposedReceipt,
): Promise<{ status: number; headers: [string, string][]; body: Buffer }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: headers.map(([name, value]): [string, string] => [name, value]),
    body: new Uint8Array(body),
  })
  const answer = Buffer.from(await response.arrayBuffer())
  return { status: response.status, headers: [...response.headers], body: answer }
}

/** Where a message wants its receipt. */
export function wantedAt(message: Incoming): string {
  const url = message.receiptRequest?.asyncUrl
  if (url == null) throw new Error('The message asks for no asynchronous receipt')
  return url
}
