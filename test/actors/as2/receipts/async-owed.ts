import { randomUUID } from 'node:crypto'
import type { Pool } from 'pg'
import type { Test } from 'tap'
import {
  composeMessage,
  type ComposedMessage,
  type Outgoing,
} from '../../../../actors/as2/protocol/compose.ts'
import { setUpLoop, startLoop, type As2Loop } from '../../../support/as2-loop.ts'
import { post, startAsyncPartner, type AsyncPartner } from '../../../support/async-partner.ts'
import { createTestDatabase } from '../../../support/database.ts'
import { allMessages } from '../../../support/exchanged-messages.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { Waybill, type WaybillOptions } from '../../../support/waybill.ts'
import type { Message } from './async-site.ts'

/** Acme, whose server is the test's, sends to Globex, which runs the service. */
export interface Owing {
  readonly waybill: Waybill
  /** How another node of it is started. */
  readonly node: WaybillOptions
  readonly pool: Pool
  readonly loop: As2Loop
  readonly acme: AsyncPartner
  /** Changes the profile of Acme, and the settings of the receiver. */
  readonly change: (profile: object) => Promise<unknown>
  readonly setReceiver: (settings: object) => Promise<void>
  readonly compose: (changes?: Partial<Outgoing>) => Promise<ComposedMessage>
  /** The same to another place. */
  readonly composeFor: (asyncUrl: string, changes?: Partial<Outgoing>) => Promise<ComposedMessage>
  readonly send: (message: ComposedMessage) => ReturnType<typeof post>
  readonly recordOf: (message: ComposedMessage) => Promise<Message>
  readonly untilSo: (message: ComposedMessage, isSo: (record: Message) => boolean) => Promise<Message>
}

/** @param env of the service, beside what it needs */
export async function startOwing(t: Test, env: WaybillOptions['env'] = {}): Promise<Owing> {
  const { url, pool } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const node = { directory, env: { ...env, DATABASE_URL: url } }
  const waybill = await Waybill.start(node)
  t.teardown(() => waybill.stop())
  const loop = await setUpLoop(waybill, { directory })
  const acme = await startAsyncPartner(t, { own: loop.acme.keys, signer: loop.globex.keys })
  const change = (profile: object) =>
    waybill.request('PUT', `/as2/remote-profiles/${loop.acme.partner}`, profile)
  await change({ endpoint: acme.url })
  await startLoop(waybill)
  const { keys } = loop.acme
  const composeFor: Owing['composeFor'] = (asyncUrl, changes = {}) =>
    composeMessage({
      as2From: 'ACME-AS2',
      as2To: 'GLOBEX AS2',
      messageId: `<${randomUUID()}@acme>`,
      subject: 'an invoice',
      date: new Date(),
      fileName: `${randomUUID()}.edi`,
      contentType: 'application/edifact',
      content: Buffer.from("UNB+UNOC:3'"),
      compression: 'BeforeSigning',
      signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...keys },
      encryption: {
        algorithm: 'AES256-CBC',
        keyTransport: 'PKCS1',
        certificate: loop.globex.keys.certificate,
      },
      receipt: { signed: true, asyncUrl },
      product: 'Partner/1.0',
      ...changes,
    })
  const recordsOf = async ({ messageId }: ComposedMessage): Promise<Message[]> =>
    ((await allMessages(waybill)) as Message[]).filter(
      ({ protocols }) => protocols.as2?.message_id === messageId,
    )
  const recordOf: Owing['recordOf'] = async (message) => {
    const [record, ...others] = await recordsOf(message)
    if (record === undefined || others.length > 0) throw new Error('There is not one such message')
    return record
  }
  return {
    waybill,
    node,
    pool,
    loop,
    acme,
    change,
    setReceiver: async (settings) => {
      await waybill.request('PUT', '/plugins/configs/as2-receiver/receiver', settings)
      await waybill.request('POST', '/services/as2-receiver/receiver/restart')
    },
    composeFor,
    compose: (changes) => composeFor(`${acme.url}?of=receipts&n=1`, changes),
    send: (message) => post(loop.receiverUrl, message),
    recordOf,
    untilSo: async (message, isSo) => {
      let last = await recordOf(message)
      const holds = async (): Promise<boolean> => isSo((last = await recordOf(message)))
      await until(holds).catch((error: unknown) => {
        throw new Error(`${JSON.stringify(last, null, 1)}\n${waybill.output.join('\n')}`, { cause: error })
      })
      return last
    },
  }
}

export const stateOf = ({ protocols }: Message): string | undefined => protocols.as2?.receipt?.state
