import { hash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { headerPairs } from '../../../actors/as2/sending/http-client.ts'
import type { AlertPost } from '../../../actors/notifications/formats/generic.ts'
import { PROCESSED } from '../../../actors/as2/protocol/disposition.ts'
import { readMessage } from '../../../actors/as2/protocol/read.ts'
import { claimedMessageId, composeReceipt, isReceipt } from '../../../actors/as2/protocol/receipt.ts'
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

/** A post of a notifier, and whether it was taken: some are answered with 503. */
export interface AlertArrival extends Arrival {
  readonly isTaken: boolean
  /** How many alerts it says it stands for. */
  readonly count: number
  /** Ids of those that it lists. */
  readonly alerts: readonly number[]
}

export interface Peers {
  readonly as2Url: string
  readonly postUrl: string
  readonly alertUrl: string
  readonly messages: readonly Arrival[]
  readonly posts: readonly Arrival[]
  readonly alerts: readonly AlertArrival[]
  /** Those that came by themselves: the message that each is for, and the digest of its body. */
  readonly receipts: readonly Arrival[]
  /** Of its own receipts, those that were refused. */
  readonly refusals: readonly string[]
}

/** An AS2 partner, which verifies what it gets and signs its receipts, and a server that takes every post. */
export async function startPeers(
  t: Teardown,
  keys: { readonly ours: TestCertificate; readonly theirs: TestCertificate },
): Promise<Peers> {
  const messages: Arrival[] = []
  const posts: Arrival[] = []
  const receipts: Arrival[] = []
  const returns = new Returns()
  t.teardown(async () => returns.close())
  const as2Url = await serve(t, async (request, response) => {
    const fields = headerPairs(request.rawHeaders)
    const content = await buffer(request)
    if (isReceipt(fields, content)) {
      receipts.push({ id: claimedMessageId(fields, content) ?? '', sha256: hash('sha256', content, 'hex') })
      return void response.writeHead(204).end()
    }
    const message = await readMessage({
      headers: fields,
      body: content,
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
    const url = message.receiptRequest?.asyncUrl ?? null
    if (url === null) return void response.writeHead(200, headers.flat()).end(body)
    // Every other receipt is faster than the answer, unless nobody is there to take it yet.
    const isTaken = messages.length % 2 === 0 && (await returns.post(url, headers, body))
    response.end()
    if (!isTaken) void returns.untilTaken(url, headers, body)
  })
  const postUrl = await serve(t, async (request, response) => {
    const body = await buffer(request)
    posts.push({ id: String(request.headers['webhook-id']), sha256: hash('sha256', body, 'hex') })
    response.writeHead(204).end()
  })
  const alerts: AlertArrival[] = []
  const alertUrl = await serve(t, async (request, response) => {
    const body = await buffer(request)
    const isTaken = alerts.length % 3 !== 0
    const post = JSON.parse(body.toString()) as AlertPost
    alerts.push({
      id: String(request.headers['webhook-id']),
      sha256: hash('sha256', body, 'hex'),
      isTaken,
      count: post.count,
      alerts: post.alerts.map(({ alert_id }) => alert_id),
    })
    response.writeHead(isTaken ? 204 : 503).end()
  })
  return { as2Url, postUrl, alertUrl, messages, posts, alerts, receipts, refusals: returns.refusals }
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

const AGAIN_MS = 50

/** The partner's own receipts, which it sends by themselves until they are taken. */
class Returns {
  readonly refusals: string[] = []
  #closed = false

  close(): void {
    this.#closed = true
  }

  async untilTaken(...receipt: Parameters<Returns['post']>): Promise<void> {
    while (!this.#closed && !(await this.post(...receipt))) await sleep(AGAIN_MS)
  }

  /** Once; whether that was the end of it. Nobody is there while the service is killed. */
  async post(url: string, headers: readonly (readonly [string, string])[], body: Buffer): Promise<boolean> {
    try {
      const signal = AbortSignal.timeout(60_000)
      const fields = Object.fromEntries(headers)
      const answer = await fetch(url, { method: 'POST', headers: fields, body: new Uint8Array(body), signal })
      const text = await answer.text()
      if (answer.status === 400) this.refusals.push(text)
      return answer.ok || answer.status === 400
    } catch {
      return false
    }
  }
}
