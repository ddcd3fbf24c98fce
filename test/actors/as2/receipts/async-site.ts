import type { Pool } from 'pg'
import type { Test } from 'tap'
import { setUpLoop, startLoop, type As2Loop } from '../../../support/as2-loop.ts'
import { startAsyncPartner, type AsyncPartner } from '../../../support/async-partner.ts'
import { createTestDatabase } from '../../../support/database.ts'
import { allMessages, type ExchangedMessage } from '../../../support/exchanged-messages.ts'
import { dropFile } from '../../../support/file-set.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

/** Acme, which runs the service, and Globex, whose server is the test's. Receipts go by themselves. */
export interface Site {
  readonly waybill: Waybill
  readonly pool: Pool
  readonly loop: As2Loop
  readonly globex: AsyncPartner
  /** Changes the profile of Globex. */
  readonly change: (profile: object) => Promise<unknown>
  /** Sends a file, and waits until its message is as it should be. */
  readonly send: (name: string, isSo: (message: Message) => boolean) => Promise<Message>
  readonly untilSo: (id: string, isSo: (message: Message) => boolean) => Promise<Message>
}

export interface Message extends ExchangedMessage {
  readonly protocols: {
    readonly as2?: {
      readonly message_id: string
      readonly receipt: {
        readonly mode: string
        readonly state: string
        readonly disposition: string | null
        readonly mic_matches: boolean | null
        readonly message_id: string | null
        readonly at: string | null
      } | null
    }
  }
}

export async function startSite(t: Test): Promise<Site> {
  const { url, pool } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const waybill = await Waybill.start({ directory, env: { DATABASE_URL: url } })
  t.teardown(() => waybill.stop())
  const loop = await setUpLoop(waybill, { directory })
  const keys = { own: loop.globex.keys, signer: loop.acme.keys }
  const globex = await startAsyncPartner(t, keys)
  const change = (profile: object) =>
    waybill.request('PUT', `/as2/remote-profiles/${loop.globex.partner}`, profile)
  await change({ endpoint: globex.url, receipt_mode: 'Async' })
  await startLoop(waybill)
  const until_ = async (
    find: () => Promise<Message | undefined>,
    isSo: (message: Message) => boolean,
  ): Promise<Message> => {
    let last: Message | undefined
    const holds = async (): Promise<boolean> => {
      last = await find()
      return last !== undefined && isSo(last)
    }
    await until(holds).catch((error: unknown) => {
      throw new Error(`The message is ${JSON.stringify(last, null, 1)}\n${waybill.output.join('\n')}`, {
        cause: error,
      })
    })
    if (last === undefined) throw new Error('There is no message')
    return last
  }
  const untilSo = (id: string, isSo: (message: Message) => boolean) =>
    until_(() => waybill.request<Message>('GET', `/messages/${id}`), isSo)
  const named = async (name: string): Promise<Message | undefined> =>
    ((await allMessages(waybill)) as Message[]).find(({ file_name }) => file_name === name)
  return {
    waybill,
    pool,
    loop,
    globex,
    change,
    untilSo,
    send: async (name, isSo) => {
      await dropFile(loop.outbox, name, `content of ${name}`)
      return until_(() => named(name), isSo)
    },
  }
}

export const waits = ({ status }: Message): boolean => status === 'AwaitingReceipt'
export const isDelivered = ({ status }: Message): boolean => status === 'Delivered'
export const hasFailed = ({ status }: Message): boolean => status === 'Error'

/** The lines about receipts, as `kind: text`. */
export function receiptLines({ history }: Message): string[] {
  return history.filter(({ kind }) => kind.startsWith('mdn_')).map(({ kind, text }) => `${kind}: ${text}`)
}
