import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { once } from 'node:events'
import { crashPoint } from '../../runtime/crash-point.ts'
import type { ActorContext, RunningActor } from '../../runtime/thread/actor.ts'
import { openStorage, type ProcessFacts, type Storage } from '../../storage/access.ts'
import type { AcceptedMessage } from '../../storage/sql/accept.ts'
import { headerPairs } from './http-client.ts'
import { Inbound, type Reply } from './inbound.ts'
import { ClientGone, HeldBody, MemoryBudget, tooLarge } from './held-body.ts'
import { Keyring } from './partnership.ts'
import { Refusal } from './protocol/refusal.ts'
import { namingOutages } from '../../storage/postgres/unavailable.ts'
import { tlsIdentity } from './tls-identity.ts'
import type { As2ReceiverSettings } from './settings.ts'

/** Messages worked on at the same time; more wait in their sockets. */
const MAX_MESSAGES_IN_HAND = 64
/** Connections that may be open; further ones are closed at once. */
const MAX_CONNECTIONS = 2_000
/** Bodies held in memory, beyond one of the largest allowed: further ones are told to come again. */
const EXTRA_BODY_BYTES = 256 * 1024 * 1024
/** Requests in hand when the instance stops may end so long; then their connections are closed. */
const STOP_GRACE_MS = 15_000
const BUSY = [
  ['Retry-After', '30'],
  ['Connection', 'close'],
] as const
const HEADERS_TIMEOUT_MS = 30_000
const REQUEST_TIMEOUT_MS = 30 * 60_000
const KEEP_ALIVE_MS = 60_000
const MAX_HEADER_BYTES = 64 * 1024

/** Runs an `as2-receiver`: takes messages from partners over HTTP and answers with receipts. */
export default async function start(context: ActorContext<As2ReceiverSettings>): Promise<RunningActor> {
  const { settings, name, log } = context
  const facts = context.process as ProcessFacts
  const storage = await openStorage(facts, { log, name, poolSize: 2 })
  const receiver = new Receiver(context, facts, storage)
  const server = await makeServer(context, storage, (request, response) => receiver.answer(request, response))
  server.listen({ port: settings.port, host: settings.host === '' ? undefined : settings.host })
  await once(server, 'listening')
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
  listener: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Server> {
  const { settings } = context
  const limits = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
  }
  const server =
    settings.tls_certificate_id === null
      ? createServer(limits, listener)
      : createTlsServer(
          {
            ...limits,
            minVersion: 'TLSv1.2',
            ...(await namingOutages(tlsIdentity(storage, settings.tls_certificate_id))),
          },
          listener,
        )
  server.maxConnections = MAX_CONNECTIONS
  // A request that waits to be told to continue is told at once that it is too large, or comes at the wrong time.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (context.heldBack() === null && !tooLarge(request, settings.max_message_bytes))
      response.writeContinue()
    listener(request, response)
  })
  return server
}

class Receiver {
  readonly #context: ActorContext<As2ReceiverSettings>
  readonly #product: string
  readonly #inbound: Inbound
  readonly #inHand = new Set<Promise<void>>()
  readonly #waiting: (() => void)[] = []
  readonly #memory: MemoryBudget
  #working = 0

  constructor(context: ActorContext<As2ReceiverSettings>, facts: ProcessFacts, storage: Storage) {
    this.#context = context
    this.#product = facts.product
    this.#memory = new MemoryBudget(context.settings.max_message_bytes + EXTRA_BODY_BYTES)
    this.#inbound = new Inbound({
      pool: storage.pool,
      payloads: storage.payloads,
      keyring: new Keyring(storage.secrets),
      log: context.log,
      source: context.name,
      product: facts.product,
      maxContentBytes: context.settings.max_message_bytes,
    })
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    const work = this.#answer(request, response)
      .catch((error: unknown) => this.#fail(error, response))
      .finally(() => this.#inHand.delete(work))
    this.#inHand.add(work)
  }

  /** Resolves when every request in hand is answered. */
  async finish(): Promise<void> {
    while (this.#inHand.size > 0) await Promise.all(this.#inHand)
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { settings } = this.#context
    // Not parsed as a URL: what strangers send here need not be one.
    const [path] = (request.url ?? '').split('?', 1)
    if (path !== settings.path)
      return this.#reply(response, plain(404, 'There is no AS2 receiver at this path.'))
    if (request.method === 'HEAD') return this.#reply(response, { ...plain(200, ''), headers: [] })
    if (request.method !== 'POST')
      return this.#reply(response, plain(405, 'AS2 messages are sent with POST.', [['Allow', 'POST, HEAD']]))
    // Nothing could be committed, or would lie for long: the partner keeps the message, and never has a receipt of it.
    if (this.#context.heldBack() !== null)
      return this.#reply(response, plain(503, 'Messages cannot be taken in now.', BUSY))
    const held = new HeldBody(this.#memory, settings.max_message_bytes)
    try {
      await this.#take(request, response, held)
    } finally {
      held.release()
    }
  }

  async #take(request: IncomingMessage, response: ServerResponse, held: HeldBody): Promise<void> {
    const { max_message_bytes } = this.#context.settings
    const outcome = await held.read(request)
    if (outcome === 'too large') {
      const text = `The message is larger than ${max_message_bytes} bytes.`
      return this.#reply(response, plain(413, text, [['Connection', 'close']]))
    }
    if (outcome === 'no room') {
      return this.#reply(response, plain(503, 'Too many messages are coming in.', BUSY))
    }
    await this.#slot()
    try {
      const reply = await this.#inbound.handle(withoutCredentials(headerPairs(request.rawHeaders)), outcome)
      this.#reply(response, reply)
      crashPoint('as2-receiver.answered')
      // Until the targets have room, the place of this message is not given to another: so a slow target slows us.
      if (reply.accepted !== null) await this.#announce(reply.accepted)
      crashPoint('as2-receiver.announced')
    } finally {
      this.#release()
    }
  }

  async #announce({ targets }: AcceptedMessage): Promise<void> {
    await Promise.all(targets.map((target) => this.#context.announce(target, 1)))
  }

  async #slot(): Promise<void> {
    if (this.#working < MAX_MESSAGES_IN_HAND) this.#working += 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  #release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#working -= 1
    else next()
  }

  #reply(response: ServerResponse, { status, headers, body }: Reply): void {
    // A connection that is kept would bring the next message to an instance that ends.
    if (this.#context.signal.aborted) response.shouldKeepAlive = false
    const fields = [...headers, ['Server', this.#product], ['Content-Length', String(body.length)]]
    response.writeHead(status, fields.flat())
    response.end(body)
  }

  /** Nothing was committed, so nothing may be confirmed: the partner keeps the message and sends it again. */
  #fail(error: unknown, response: ServerResponse): void {
    if (response.headersSent) {
      this.#context.log.error({ err: error }, 'failure after the answer')
    } else if (error instanceof Refusal) {
      // The headers could not be read, so there is nobody to refuse and nothing to keep.
      this.#context.log.info({ reason: error.reason }, 'request refused')
      this.#reply(response, plain(400, `${error.message} (${error.reason})`))
    } else if (error instanceof ClientGone) {
      response.destroy()
    } else {
      this.#context.log.error({ err: error }, 'cannot take in a message')
      this.#reply(response, plain(503, 'The message cannot be taken in now.', BUSY))
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

/** The headers are kept with the message and shown: what opens something is not among them, only that it was there. */
const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie'])

function withoutCredentials(headers: readonly [string, string][]): [string, string][] {
  return headers.map(([name, value]) => [
    name,
    CREDENTIAL_HEADERS.has(name.toLowerCase()) ? '(withheld)' : value,
  ])
}
