import { setTimeout as sleep } from 'node:timers/promises'
import type { Waybill } from './waybill.ts'

const PAGE = 500
const LOOK_MS = 100

export interface ExchangedMessage {
  readonly id: string
  readonly direction: 'inbound' | 'outbound'
  readonly status: string
  readonly from: string
  readonly to: string
  readonly file_name: string
  readonly settled_at: string | null
  readonly deliveries: readonly {
    readonly id: number
    readonly state: string
    readonly attempts: number
    readonly last_error: string | null
  }[]
  readonly history: readonly { readonly kind: string; readonly text?: string }[]
  readonly protocols: {
    readonly as2?: {
      readonly message_id: string
      readonly receipt: { readonly state: string; readonly mic_matches: boolean | null } | null
    }
  }
}

export async function allMessages(waybill: Waybill): Promise<ExchangedMessage[]> {
  const all: ExchangedMessage[] = []
  for (;;) {
    const path = `/messages?limit=${PAGE}&offset=${all.length}`
    const { messages } = await waybill.request<{ messages: ExchangedMessage[] }>('GET', path)
    all.push(...messages)
    if (messages.length < PAGE) return all
  }
}

/** How many messages have a status. */
export async function countMessages(waybill: Waybill, status: string): Promise<number> {
  const { total } = await waybill.request<{ total: number }>('GET', `/messages?status=${status}&limit=1`)
  return total
}

/** Waits until so many messages are delivered; fails with what the others are. */
export async function untilDelivered(waybill: Waybill, count: number, limitMs = 300_000): Promise<void> {
  const deadline = performance.now() + limitMs
  for (;;) {
    const delivered = await countMessages(waybill, 'Delivered')
    if (delivered >= count) return
    if (performance.now() > deadline) {
      const open = (await allMessages(waybill)).filter(({ status }) => status !== 'Delivered')
      const some = JSON.stringify(open.slice(0, 3), null, 2)
      throw new Error(
        `${delivered} of ${count} delivered; open: ${open.length}\n${some}\n${waybill.output.join('\n')}`,
      )
    }
    await sleep(LOOK_MS)
  }
}
