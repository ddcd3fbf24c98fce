import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { headerPairs } from '../../actors/as2/sending/http-client.ts'
import { PROCESSED } from '../../actors/as2/protocol/disposition.ts'
import type { Incoming } from '../../actors/as2/protocol/incoming.ts'
import { composeReceipt, type OutgoingReceipt } from '../../actors/as2/protocol/receipt.ts'
import { setUpLoop, startLoop, type As2Loop } from './as2-loop.ts'
import { signedBy } from './as2-correspondent.ts'
import type { Teardown } from './database.ts'
import { allMessages, type ExchangedMessage } from './exchanged-messages.ts'
import { dropFile } from './file-set.ts'
import { httpServer } from './partner-server.ts'
import { temporaryDirectory, until } from './processes.ts'
import { readAnyMessage } from './read-any-message.ts'
import { Waybill } from './waybill.ts'

/** What the partner does with a request. */
export type Behaviour = (request: IncomingMessage, response: ServerResponse) => Promise<void>

/**
 * The service as Acme, and Globex as a partner outside of it, whose server does what a test wants. It takes each message
 * and confirms it unless it is told otherwise.
 */
export class GlobexPartner {
  readonly waybill: Waybill
  readonly loop: As2Loop
  /** Where the service keeps its files. */
  readonly directory: string
  /** Since the last file was sent. */
  readonly requests: IncomingMessage[] = []
  readonly opened: Incoming[] = []
  behaviour: Behaviour = (request, response) => this.take(request, response)
  /** In place of the behaviour, for a request that asks whether its body is wanted. */
  whenAsked: Behaviour | null = null

  private constructor(waybill: Waybill, loop: As2Loop, directory: string) {
    this.waybill = waybill
    this.loop = loop
    this.directory = directory
  }

  static async start(t: Teardown): Promise<GlobexPartner> {
    const directory = await temporaryDirectory(t)
    const waybill = await Waybill.start({ directory })
    t.teardown(async () => void (await waybill.stop()))
    const partner = new GlobexPartner(waybill, await setUpLoop(waybill, { directory }), directory)
    const { port } = await httpServer(
      t,
      (request, response) => void partner.#behave(request, response),
      (request, response) => {
        if (partner.whenAsked === null) response.writeContinue()
        void partner.#behave(request, response)
      },
    )
    await partner.profile({ endpoint: `http://127.0.0.1:${port}/as2` })
    await startLoop(waybill)
    return partner
  }

  /** Changes what the service knows of Globex. */
  async profile(changes: object): Promise<void> {
    await this.waybill.request('PUT', `/as2/remote-profiles/${this.loop.globex.partner}`, changes)
  }

  async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await this.confirm(request, await buffer(request), response)
  }

  /** Opens a message and confirms it. */
  async confirm(request: IncomingMessage, body: Buffer, response: ServerResponse): Promise<void> {
    const message = await readAnyMessage({
      headers: headerPairs(request.rawHeaders),
      body,
      decryption: [this.loop.globex.keys],
      signers: [this.loop.acme.keys.certificate],
      maxContentBytes: 64 * 2 ** 20,
    })
    this.opened.push(message)
    await this.answer(response, message.messageId ?? '', { mic: message.mic })
  }

  /** Sends a signed receipt: a good one but for what is changed. */
  async answer(
    response: ServerResponse,
    originalMessageId: string,
    changes: Partial<OutgoingReceipt>,
  ): Promise<void> {
    const { headers, body } = await composeReceipt({
      as2From: 'GLOBEX AS2',
      as2To: 'ACME-AS2',
      messageId: '<receipt@globex>',
      date: new Date(),
      originalMessageId,
      disposition: PROCESSED,
      mic: null,
      text: 'A receipt.',
      signature: signedBy(this.loop.globex.keys),
      product: 'Partner/1.0',
      ...changes,
    })
    response.writeHead(200, headers.flat()).end(body)
  }

  /** Hands a file over to the service, and waits until its delivery is in a state. */
  async send(name: string, content: Buffer, state = 'delivered'): Promise<ExchangedMessage> {
    this.requests.length = 0
    this.opened.length = 0
    await dropFile(this.loop.outbox, name, content)
    return this.untilIn(name, state)
  }

  async untilIn(name: string, state: string): Promise<ExchangedMessage> {
    let found: ExchangedMessage | undefined
    await until(async () => {
      const all = await allMessages(this.waybill)
      found = all.find(({ file_name, direction }) => file_name === name && direction === 'outbound')
      return found?.deliveries[0]?.state === state
    }, 300_000)
    if (found === undefined) throw new Error(`${name} is not ${state}`)
    return found
  }

  /** Lets a retrying message through, so that it does not disturb the tests behind it. */
  async letThrough(name: string): Promise<ExchangedMessage> {
    this.behaviour = (request, response) => this.take(request, response)
    this.whenAsked = null
    return this.untilIn(name, 'delivered')
  }

  async #behave(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests.push(request)
    // A sender that breaks off is part of some tests.
    request.on('error', () => undefined)
    const behaviour = this.whenAsked ?? this.behaviour
    await behaviour(request, response).catch(() => response.destroy())
  }
}
