import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { Test } from 'tap'
import { headerPairs } from '../../../../actors/as2/sending/http-client.ts'
import { formatMic, type Mic } from '../../../../actors/as2/protocol/mic.ts'
import { formatMultipartSigned } from '../../../../actors/as2/protocol/multipart-signed.ts'
import { readMessage } from '../../../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../../../actors/as2/protocol/incoming.ts'
import type { ComposedReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { opaqueSigned } from '../protocol/opaque-signed.ts'
import { setUpLoop, type As2Loop } from '../../../support/as2-loop.ts'
import { As2Correspondent, signedBy } from '../../../support/as2-correspondent.ts'
import type { TestCertificate } from '../../../support/certificates.ts'
import type { ExchangedMessage } from '../../../support/exchanged-messages.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

/** A service whose partner Globex answers each message with a synchronous receipt of the test's making. */
export interface Answering {
  readonly acme: As2Correspondent
  readonly loop: As2Loop
  /**
   * Sends a message to the partner, which answers so; how its delivery ended. With `options`, the partner acts as if the
   * request for a receipt had these, or none.
   */
  readonly send: (answer: Behaviour, options?: string | null) => Promise<Ended>
  /** Delivers a message again, which the partner answers so. */
  readonly sendAgain: (message: ExchangedMessage, answer: Behaviour) => Promise<Ended>
  /** A signed receipt of Globex, line by line as a partner's product writes it. */
  readonly receipt: (wishes?: Wishes) => Behaviour
}

export type Behaviour = (message: Arrived, response: ServerResponse) => Promise<void>

export interface Arrived extends Incoming {
  readonly headers: [string, string][]
  readonly body: Buffer
}

export interface Ended {
  readonly state: string
  readonly error: string
  readonly message: ExchangedMessage
}

export interface Wishes {
  readonly disposition?: string
  /** The whole field, or none. */
  readonly mic?: (of: Mic, message: Arrived) => string | null
  readonly status?: number
  /** Null: it names no message. */
  readonly originalId?: string | null
  /** Null: it is not signed. */
  readonly signer?: TestCertificate | null
  /** Whether it stands within its signature, and not beside it. */
  readonly isOpaque?: boolean
  /** How the answer is written on the connection. */
  readonly write?: Write
}

export type Write = (response: ServerResponse, status: number, answer: ComposedReceipt) => void

export const MODE = 'automatic-action/MDN-sent-automatically'

export async function startAnswering(t: Test): Promise<Answering> {
  const directory = await temporaryDirectory(t)
  const waybill = await Waybill.start({ directory })
  t.teardown(async () => waybill.stop())
  const loop = await setUpLoop(waybill, { directory })
  const acme = new As2Correspondent(waybill, loop)
  // A test sees the one attempt: what would be tried again fails with its reason.
  await waybill.request('POST', '/plugins/configs?type=as2-sender', { name: 'once', retry_max_attempts: 1 })
  await waybill.request('POST', '/services/as2-sender/once/start')
  let behaviour: Behaviour = async (_, response) => void response.end()
  let optionsTaken: string | null | undefined
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const headers = headerPairs(request.rawHeaders)
    const body = await buffer(request)
    const message = await readMessage({
      headers: optionsTaken === undefined ? headers : withOptions(headers, optionsTaken),
      body,
      decryption: [loop.globex.keys],
      signers: [loop.acme.keys.certificate],
      maxContentBytes: 1_000_000,
    })
    await behaviour({ ...message, headers, body }, response)
  }
  const server = createServer((request, response) => void take(request, response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  await acme.profile('globex', { endpoint: `http://127.0.0.1:${port}/as2` })
  return {
    acme,
    loop,
    send: async (answer, options) => {
      behaviour = answer
      optionsTaken = options
      const path = `/as2/remote-profiles/${loop.globex.partner}/test-message`
      const wishes = { sender: 'once', organization: 'acme' }
      const { message_id } = await waybill.request<{ message_id: string }>('POST', path, wishes)
      return ended(waybill, message_id)
    },
    sendAgain: async ({ id, deliveries }, answer) => {
      behaviour = answer
      optionsTaken = undefined
      await waybill.request('POST', `/messages/${id}/deliveries/${deliveries[0]?.id}/redeliver`)
      return ended(waybill, id)
    },
    receipt: (wishes = {}) => receipt({ signer: loop.globex.keys, ...wishes }),
  }
}

const OPTIONS = 'Disposition-Notification-Options'

function withOptions(headers: [string, string][], options: string | null): [string, string][] {
  const others = headers.filter(([name]) => name.toLowerCase() !== OPTIONS.toLowerCase())
  return options === null ? others : [...others, [OPTIONS, options]]
}

async function ended(waybill: Waybill, id: string): Promise<Ended> {
  let message: ExchangedMessage | undefined
  await until(async () => {
    message = await waybill.request<ExchangedMessage>('GET', `/messages/${id}`)
    return ['delivered', 'failed'].includes(message.deliveries[0]?.state ?? '')
  })
  const [delivery] = message?.deliveries ?? []
  if (message === undefined || delivery === undefined) throw new Error('nothing was sent')
  return { state: delivery.state, error: delivery.last_error ?? '', message }
}

const wellFormed: Write = (response, status, { headers, body }) =>
  void response.writeHead(status, headers.flat()).end(body)

const REPORT_TYPE = 'multipart/report; report-type=disposition-notification; boundary="r"'

function receipt(wishes: Wishes & { readonly signer: TestCertificate | null }): Behaviour {
  const { disposition = `${MODE}; processed`, status = 200, write = wellFormed } = wishes
  return async (message, response) => {
    const value = wishes.mic === undefined ? formatMic(message.mic) : wishes.mic(message.mic, message)
    const { originalId = message.messageId } = wishes
    const report = [
      '--r',
      'Content-Type: message/disposition-notification',
      '',
      'Final-Recipient: rfc822; somebody',
      ...(originalId === null ? [] : [`Original-Message-ID: ${originalId}`]),
      `Disposition: ${disposition}`,
      ...(value === null ? [] : [`Received-content-MIC: ${value}`]),
      '--r--',
      '',
    ].join('\r\n')
    write(response, status, await signedReport(report, wishes))
  }
}

async function signedReport(
  report: string,
  { signer, isOpaque = false }: Wishes & { readonly signer: TestCertificate | null },
): Promise<ComposedReceipt> {
  if (signer === null) return { headers: [['Content-Type', REPORT_TYPE]], body: Buffer.from(report) }
  const part = Buffer.from(`Content-Type: ${REPORT_TYPE}\r\n\r\n${report}`)
  if (isOpaque) return opaqueSigned(part, signer)
  return formatMultipartSigned(part, { signing: signedBy(signer), signingTime: new Date() })
}
