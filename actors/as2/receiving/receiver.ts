import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { crashPoint } from '../../../runtime/crash-point.ts'
import { DEFAULT_LIMITS } from '../../../runtime/supervisor/limits.ts'
import type { ActorContext, RunningActor } from '../../../runtime/thread/actor.ts'
import { openStorage, type ProcessFacts, type Storage } from '../../../storage/access.ts'
import type { AcceptedMessage } from '../../../storage/sql/accept.ts'
import { headerPairs } from '../sending/http-client.ts'
import { Inbound } from './inbound.ts'
import { ExpandingPlaces } from './expanding-places.ts'
import { FirstBytes, STRANGER_BYTES } from './first-bytes.ts'
import { HeldBody, MemoryBudget } from './held-body.ts'
import { Keyring } from '../profiles/partnership.ts'
import { BeyondMemory } from '../protocol/beyond-memory.ts'
import { Refusal } from '../protocol/refusal.ts'
import { CHUNK_BYTES } from '../protocol/stream/limits.ts'
import { inPieces } from '../protocol/stream/pieces.ts'
import { Places } from './places.ts'
import type { Reply } from './reply.ts'
import { StreamPlaces } from './stream-places.ts'
import { BodyTooLarge, BodyTooSlow, ClientGone, RequestBody, tooLarge } from './request-body.ts'
import { mayBeReceipt, ReceiverReceipts } from '../receipts/receiver-receipts.ts'
import { namingOutages } from '../../../storage/postgres/unavailable.ts'
import { isCoded, pathOf, refusalOfFraming, TOLERANT_PARSER } from './request-framing.ts'
import { makeTlsServer, tlsServerOptions } from './tls-server.ts'
import type { As2ReceiverSettings } from '../settings.ts'
import { warnOfWeakKeys } from '../profiles/weak-keys.ts'

/** Messages worked on at the same time; more wait in their sockets. */
const MAX_MESSAGES_IN_HAND = 64
/** Connections that may be open; further ones are closed at once. */
const MAX_CONNECTIONS = 2_000
/** Bodies held in memory by all together: further ones are told to come again. */
const MAX_HELD_BYTES = 256 * 1024 * 1024
/** What is left to do for the requests whose connections were closed, and to close the storage. */
const STOP_CLOSING_MS = 2_000
/** Requests in hand when the instance stops may end so long; then their connections are closed. */
const STOP_GRACE_MS = DEFAULT_LIMITS.stopLimitMs - STOP_CLOSING_MS
const BUSY = [
  ['Retry-After', '30'],
  ['Connection', 'close'],
] as const
const HEADERS_TIMEOUT_MS = 30_000
/** How often connections are looked through for one whose headers are late. */
const LOOK_FOR_LATE_MS = 5_000
const KEEP_ALIVE_MS = 60_000
const MAX_HEADER_BYTES = 64 * 1024

/** Runs an `as2-receiver`: takes messages from partners over HTTP and answers with receipts. */
export default async function start(context: ActorContext<As2ReceiverSettings>): Promise<RunningActor> {
  const { settings, name, log } = context
  const facts = context.process as ProcessFacts
  const storage = await openStorage(facts, { log, name, poolSize: 2 })
  await warnOfWeakKeys({ pool: storage.pool, log })
  const receiver = new Receiver(context, facts, storage)
  const server = await makeServer(context, storage, receiver)
  server.listen({ port: settings.port, host: settings.host === '' ? undefined : settings.host })
  await once(server, 'listening')
  receiver.begin()
  return {
    stop: async () => {
      server.close()
      server.closeIdleConnections()
      const grace = setTimeout(() => server.closeAllConnections(), STOP_GRACE_MS)
      await receiver.finish()
      clearTimeout(grace)
      server.closeAllConnections()
      await storage.close()
    },
  }
}

async function makeServer(
  context: ActorContext<As2ReceiverSettings>,
  storage: Storage,
  receiver: Receiver,
): Promise<Server> {
  const { settings } = context
  const limits = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    // A message may be of any size: it is its rate that is bounded (see request-body.ts).
    requestTimeout: 0,
    connectionsCheckingInterval: LOOK_FOR_LATE_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    ...TOLERANT_PARSER,
  }
  const listener = (request: IncomingMessage, response: ServerResponse): void =>
    receiver.answer(request, response, false)
  const tls = await namingOutages(tlsServerOptions(storage, settings))
  const server =
    tls === null
      ? createServer(limits, listener)
      : makeTlsServer({ ...limits, ...tls }, { listener, log: context.log })
  server.maxConnections = MAX_CONNECTIONS
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
    receiver.answer(request, response, true),
  )
  return server
}

/** A request and its answer. */
interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly body: RequestBody
}

class Receiver {
  readonly #context: ActorContext<As2ReceiverSettings>
  readonly #product: string
  readonly #inbound: Inbound
  readonly #receipts: ReceiverReceipts
  readonly #inHand = new Set<Promise<void>>()
  readonly #memory: MemoryBudget
  readonly #working = new Places(MAX_MESSAGES_IN_HAND)
  readonly #expanding = new ExpandingPlaces()
  readonly #streams = new StreamPlaces()

  constructor(context: ActorContext<As2ReceiverSettings>, facts: ProcessFacts, storage: Storage) {
    this.#context = context
    this.#product = facts.product
    this.#memory = new MemoryBudget(MAX_HELD_BYTES)
    const keyring = new Keyring(storage.secrets)
    const receipts = new ReceiverReceipts({ context, storage, keyring })
    this.#receipts = receipts
    this.#inbound = new Inbound({
      pool: storage.pool,
      payloads: storage.payloads,
      keyring,
      log: context.log,
      source: context.name,
      product: facts.product,
      maxContentBytes: context.settings.max_message_bytes,
      receiptPlaces: receipts.allowed,
      receiptWaits: () => receipts.wake(),
    })
  }

  /** To be called when requests can come in: from then on, what is owed goes out, too. */
  begin(): void {
    this.#receipts.start()
  }

  /** `expectsContinue`: the sender waits to be told to send the body, and may be told something else instead. */
  answer(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const { max_message_bytes: maxBytes } = this.#context.settings
    const begin = expectsContinue ? () => response.writeContinue() : null
    const body = new RequestBody(request, { maxBytes, begin })
    const exchange = { request, response, body }
    const work = this.#answer(exchange)
      .catch((error: unknown) => this.#recordTooLarge(error, exchange))
      .catch((error: unknown) => this.#fail(error, exchange))
      .finally(() => this.#inHand.delete(work))
    this.#inHand.add(work)
  }

  /** Resolves when every request in hand is answered, and no receipt is being sent. */
  async finish(): Promise<void> {
    const receipts = this.#receipts.stop()
    while (this.#inHand.size > 0) await Promise.all(this.#inHand)
    await receipts
  }

  async #answer(exchange: Exchange): Promise<void> {
    const { request, body } = exchange
    const { settings } = this.#context
    const misframed = refusalOfFraming(request)
    if (misframed !== null) return this.#reply(exchange, plain(400, misframed, [['Connection', 'close']]))
    if (pathOf(request) !== settings.path)
      return this.#reply(exchange, plain(404, 'There is no AS2 receiver at this path.'))
    if (request.method === 'HEAD') return this.#reply(exchange, { ...plain(200, ''), headers: [] })
    if (request.method !== 'POST')
      return this.#reply(exchange, plain(405, 'AS2 messages are sent with POST.', [['Allow', 'POST, HEAD']]))
    if (isCoded(request) && !mayBeReceipt(request)) return this.#reply(exchange, UNCODED)
    // Nothing could be committed, or would lie for long: the partner keeps the message, and never has a receipt of it.
    if (this.#context.heldBack() !== null && !mayBeReceipt(request))
      return this.#reply(exchange, plain(503, 'Messages cannot be taken in now.', BUSY))
    if (tooLarge(request, settings.max_message_bytes)) throw new BodyTooLarge('The message is too large')
    const held = new HeldBody(this.#memory)
    try {
      const small = await held.read(body)
      if (small === 'no room')
        await this.#reply(exchange, plain(503, 'Too many messages are coming in.', BUSY))
      else if (small === 'large') await this.#takeLarge(exchange)
      else if ((await this.#working.within(() => this.#takeSmall(exchange, small))) === 'beyond memory')
        await this.#takeExpanding(exchange, small)
    } finally {
      held.release()
    }
  }

  /** `beyond memory`: it is to be taken as what is large is, and nothing was done with it yet. */
  async #takeSmall(exchange: Exchange, body: Buffer): Promise<'answered' | 'beyond memory'> {
    try {
      const headers = withoutCredentials(headerPairs(exchange.request.rawHeaders))
      const receipt = await this.#receipts.answer(headers, body)
      if (receipt === null && isCoded(exchange.request)) {
        await this.#reply(exchange, UNCODED)
        return 'answered'
      }
      if (receipt === null && this.#context.heldBack() !== null)
        await this.#reply(exchange, plain(503, 'Messages cannot be taken in now.', BUSY))
      else await this.#conclude(exchange, receipt ?? (await this.#inbound.handle(headers, body)))
      return 'answered'
    } catch (thrown) {
      if (thrown instanceof BeyondMemory) return 'beyond memory'
      throw thrown
    }
  }

  async #takeExpanding(exchange: Exchange, body: Buffer): Promise<void> {
    const headers = withoutCredentials(headerPairs(exchange.request.rawHeaders))
    // Of who has no profiles nothing is opened, unless they were deleted this very moment.
    const pair = (await this.#inbound.pairOf(headers)) ?? ''
    const outcome = await this.#expanding.within(pair, async () => {
      if (this.#context.heldBack() !== null)
        return this.#reply(exchange, plain(503, 'Messages cannot be taken in now.', BUSY))
      await this.#conclude(exchange, await this.#inbound.handle(headers, inPieces([body], CHUNK_BYTES)))
    })
    if (outcome === 'no room')
      await this.#reply(exchange, plain(503, 'Too many messages are coming in.', BUSY))
  }

  /** While it waits for a place it would hold its connection for long: so it is told to come again. */
  async #takeLarge(exchange: Exchange): Promise<void> {
    const { request, body } = exchange
    if (this.#context.heldBack() !== null)
      return this.#reply(exchange, plain(503, 'Messages cannot be taken in now.', BUSY))
    const headers = withoutCredentials(headerPairs(request.rawHeaders))
    const pair = await this.#inbound.pairOf(headers)
    const place = this.#streams.take(pair)
    if (place === null) return this.#reply(exchange, plain(503, 'Too many messages are coming in.', BUSY))
    try {
      body.demand(place.leastBytesPerSecond)
      const isPartner = pair !== null
      const refusedReceipt = isPartner ? await this.#receipts.refuseLarge(headers, body) : null
      const content = isPartner ? body : new FirstBytes(body, STRANGER_BYTES)
      const reply = refusedReceipt ?? (await this.#inbound.handle(headers, content))
      // Few senders look for an answer before they have sent all: what is left of a repeat is taken and dropped.
      if (isPartner) await body.drain()
      await this.#conclude(exchange, reply)
    } finally {
      place.release()
    }
  }

  async #conclude(exchange: Exchange, reply: Reply): Promise<void> {
    await this.#reply(exchange, reply)
    crashPoint('as2-receiver.answered')
    // Until the targets have room, the place of this message is not given to another: so a slow target slows us.
    if (reply.accepted !== null) await this.#announce(reply.accepted)
    crashPoint('as2-receiver.announced')
  }

  async #announce({ targets }: AcceptedMessage): Promise<void> {
    await Promise.all(targets.map((target) => this.#context.announce(target, 1)))
  }

  async #reply({ response, body: rest }: Exchange, { status, headers, body }: Reply): Promise<void> {
    // A connection that is kept would bring the next message to an instance that ends, or the rest of this one.
    const isEarly = !rest.complete
    if (this.#context.signal.aborted || isEarly) response.shouldKeepAlive = false
    // A status that has no body tells no length of it (RFC 9110 §8.6).
    const length = status === 204 ? [] : [['Content-Length', String(body.length)]]
    const fields = [...headers, ['Server', this.#product], ...length]
    response.writeHead(status, fields.flat())
    if (!isEarly) return void response.end(body)
    response.write(body)
    await rest.linger()
    response.end()
  }

  /** A partner whose message is too large may never look at our answer, and ask us where it is. */
  async #recordTooLarge(error: unknown, { request, response, body }: Exchange): Promise<never> {
    if (error instanceof BodyTooLarge && !response.headersSent) {
      const bytes = body.announcedBytes === null ? '' : ` (${body.announcedBytes})`
      const most = this.#context.settings.max_message_bytes
      const reason = `The message has more bytes${bytes} than the receiver takes: max_message_bytes is ${most}. Only its headers are kept`
      await this.#inbound.refuseUntaken(withoutCredentials(headerPairs(request.rawHeaders)), reason)
    }
    throw error
  }

  /** Nothing was committed, so nothing may be confirmed: the partner keeps the message and sends it again. */
  async #fail(error: unknown, exchange: Exchange): Promise<void> {
    const { response } = exchange
    if (response.headersSent) {
      this.#context.log.error({ err: error }, 'failure after the answer')
    } else if (error instanceof Refusal) {
      // The headers could not be read, so there is nobody to refuse and nothing to keep.
      this.#context.log.info({ reason: error.reason }, 'request refused')
      await this.#reply(exchange, plain(400, `${error.message} (${error.reason})`))
    } else if (error instanceof BodyTooLarge) {
      const text = `The message is larger than ${this.#context.settings.max_message_bytes} bytes.`
      await this.#reply(exchange, plain(413, text))
    } else if (error instanceof BodyTooSlow) {
      this.#context.log.warn('a message came in too slowly and was given up')
      await this.#reply(exchange, plain(408, 'The message comes in too slowly.'))
    } else if (error instanceof ClientGone) {
      response.destroy()
    } else {
      this.#context.log.error({ err: error }, 'cannot take in a message')
      await this.#reply(exchange, plain(503, 'The message cannot be taken in now.', BUSY))
    }
  }
}

function plain(status: number, text: string, headers: readonly (readonly [string, string])[] = []): Reply {
  const body = Buffer.from(text === '' ? '' : `${text}\n`)
  return {
    status,
    headers: [['Content-Type', 'text/plain; charset=utf-8'], ...headers],
    body,
    accepted: null,
  }
}

const UNCODED = plain(415, 'A message must not have a Content-Encoding.', [['Accept-Encoding', 'identity']])

/** The headers are kept with the message and shown: what opens something is not among them, only that it was there. */
const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie'])

function withoutCredentials(headers: readonly [string, string][]): [string, string][] {
  return headers.map(([name, value]) => [
    name,
    CREDENTIAL_HEADERS.has(name.toLowerCase()) ? '(withheld)' : value,
  ])
}
