import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { headerPairs } from '../../../../actors/as2/sending/http-client.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import { setUpLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent } from '../../../support/as2-correspondent.ts'
import { receiptOf } from '../../../support/async-partner.ts'
import type { ExchangedMessage } from '../../../support/exchanged-messages.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

/** What a partner's server may answer, beside the receipt itself, and what becomes of the delivery. */

t.setTimeout(300_000)

const directory = await temporaryDirectory(t)
const waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop = await setUpLoop(waybill, { directory })

type Behaviour = (request: IncomingMessage, response: ServerResponse) => Promise<unknown>
/** One for each request. */
let behaviours: Behaviour[] = []
const messageIds: (string | undefined)[] = []

const server = createServer((request, response) => {
  messageIds.push(request.headers['message-id']?.toString())
  const behave = behaviours.shift() ?? receipt()
  behave(request, response).catch(() => response.destroy())
})
// As long as no test takes.
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1')
await once(server, 'listening')
t.teardown(() => {
  server.closeAllConnections()
  server.close()
})
const { port } = server.address() as AddressInfo
await new As2Correspondent(waybill, loop).profile('globex', { endpoint: `http://127.0.0.1:${port}/as2` })

/** Answers with the receipt, coded so. */
function receipt(coding?: string, code: (body: Buffer) => Buffer = (body) => body): Behaviour {
  return async (request, response) => {
    const message = await readMessage({
      headers: headerPairs(request.rawHeaders),
      body: await buffer(request),
      decryption: [loop.globex.keys],
      signers: [loop.acme.keys.certificate],
      maxContentBytes: 1_000_000,
    })
    const { headers, body } = await receiptOf(message, loop.globex.keys)
    for (const [name, value] of headers) response.setHeader(name, value)
    if (coding !== undefined) response.setHeader('Content-Encoding', coding)
    response.end(code(body))
  }
}

const refusal =
  (status: number, headers: Record<string, string>): Behaviour =>
  async (request, response) => {
    await buffer(request)
    response.writeHead(status, headers).end()
  }

type Delivery = ExchangedMessage['deliveries'][number] & { readonly next_attempt_at: string | null }

interface Seen {
  readonly delivery: Delivery
  readonly messageId: string
  /** Between these the next attempt lies, from now, in seconds. */
  readonly waits: { readonly leastS: number; readonly mostS: number }
}

/** A sender that waits so long from attempt to attempt. */
async function startSender(name: string, settings: object): Promise<void> {
  await waybill.request('POST', '/plugins/configs?type=as2-sender', { name, ...settings })
  await waybill.request('POST', `/services/as2-sender/${name}/start`)
}

/** Sends a message; how its delivery stands after the first attempt. */
async function send(sender: string): Promise<Seen> {
  const beganMs = Date.now()
  const path = `/as2/remote-profiles/${loop.globex.partner}/test-message`
  const wishes = { sender, organization: 'acme' }
  const { message_id: messageId } = await waybill.request<{ message_id: string }>('POST', path, wishes)
  let delivery: Delivery | undefined
  await until(async () => {
    const message = await waybill.request<ExchangedMessage>('GET', `/messages/${messageId}`)
    delivery = message.deliveries[0] as Delivery | undefined
    return ['delivered', 'failed', 'retrying'].includes(delivery?.state ?? '')
  })
  if (delivery === undefined) throw new Error('nothing was sent')
  const nextMs = Date.parse(delivery.next_attempt_at ?? '')
  return {
    delivery,
    messageId,
    waits: { leastS: (nextMs - Date.now()) / 1000, mostS: (nextMs - beganMs) / 1000 },
  }
}

await startSender('once', { retry_max_attempts: 1 })

void t.test('the next attempt waits for as long as the partner asks (RFC 9110 §10.2.3)', async (t) => {
  await startSender('patient', { retry_initial_seconds: 1, retry_max_seconds: 3_600 })
  const inAnHour = new Date(Date.now() + 3_000_000).toUTCString()
  for (const [status, asked, least, most] of [
    [503, '600', 500, 600],
    [500, '600', 500, 600],
    [429, inAnHour, 2_900, 3_000],
    [503, '86400', 3_500, 3_600],
  ] as const) {
    behaviours = [refusal(status, { 'retry-after': asked })]
    const { delivery, waits } = await send('patient')
    t.match(delivery, { state: 'retrying', attempts: 1, last_error: `HTTP status ${status}` })
    t.ok(waits.leastS <= most && waits.mostS >= least, `${asked}: ${waits.leastS} to ${waits.mostS}`)
  }
})

void t.test('and never shorter than the settings of the sender say', async (t) => {
  await startSender('slow', { retry_initial_seconds: 600, retry_max_seconds: 3_600 })
  behaviours = [refusal(503, { 'retry-after': '0' })]
  const { waits } = await send('slow')
  t.ok(waits.leastS <= 600 && waits.mostS >= 300, `${waits.leastS} to ${waits.mostS}`)
})

void t.test('what no repeat mends fails at once, whatever it asks', async (t) => {
  behaviours = [refusal(400, { 'retry-after': '1' })]
  const { delivery } = await send('patient')
  t.match(delivery, { state: 'failed', attempts: 1 })
})

void t.test('a kept connection that was lost meanwhile costs no attempt', async (t) => {
  const served = new Set<unknown>()
  let lost = 0
  // Only what had served before may be lost for nothing.
  const loseKept: Behaviour = async (request, response) => {
    behaviours = [loseKept]
    if (!served.has(request.socket)) {
      served.add(request.socket)
      return receipt()(request, response)
    }
    lost += 1
    request.socket.resetAndDestroy()
  }
  behaviours = [loseKept]
  await until(async () => {
    t.match((await send('once')).delivery, { state: 'delivered', attempts: 1, last_error: null })
    return lost > 0
  })
  behaviours = []
  const [first, again] = messageIds.slice(-2)
  t.ok(first !== undefined && first === again, 'under the same Message-ID')
})

void t.test('a receipt in a content coding that was not asked for counts', async (t) => {
  for (const [coding, code] of [
    ['gzip', gzipSync],
    ['deflate', deflateSync],
  ] as const) {
    behaviours = [receipt(coding, code)]
    t.match((await send('once')).delivery, { state: 'delivered', attempts: 1 }, coding)
  }
})

void t.test('a receipt in another coding is none, and the coding is named', async (t) => {
  behaviours = [receipt('br', brotliCompressSync)]
  const { delivery } = await send('once')
  t.match(delivery, {
    state: 'failed',
    last_error:
      /^The partner answered HTTP status 200 with \d+ bytes of multipart\/signed.* in the content coding br, /,
  })
  behaviours = [receipt('gzip', () => gzipSync(Buffer.alloc(32 * 2 ** 20)))]
  t.match((await send('once')).delivery, {
    state: 'failed',
    last_error: /^The receipt is larger than 1048576 bytes/,
  })
})
