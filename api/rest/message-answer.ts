import { z } from 'zod'
import type { ProtocolView } from '../../runtime/module.ts'
import { timestamp } from '../../runtime/endpoint/paging.ts'
import type { DeliveryView, HistoryLine, MessageView } from '../../storage/exchange/messages.ts'
import {
  DELIVERY_MOVES,
  DIRECTIONS,
  HISTORY_KINDS,
  STAGES,
  STATUSES,
  type DeliveryState,
} from '../../storage/exchange/states.ts'

/** A message as answers show it (specification, 2.7). */

const DELIVERY_STATES = Object.keys(DELIVERY_MOVES) as [DeliveryState, ...DeliveryState[]]

export const messageStatus = z.enum(STATUSES)

const delivery = z
  .object({
    id: z.int(),
    target: z.string().describe('The target plugin instance.'),
    state: z.enum(DELIVERY_STATES),
    attempts: z.int().min(0),
    next_attempt_at: timestamp.nullable().describe('Set while the delivery is retrying.'),
    last_error: z.string().nullable(),
    created_at: timestamp,
    updated_at: timestamp,
    finished_at: timestamp.nullable(),
  })
  .meta({ id: 'Delivery' })

const historyLine = z
  .object({
    id: z.int(),
    message_id: z.uuid(),
    created_at: timestamp,
    kind: z.enum(HISTORY_KINDS),
    old_status: messageStatus.optional(),
    new_status: messageStatus.optional(),
    delivery_id: z.int().optional(),
    target: z.string().optional(),
    old_state: z.enum(DELIVERY_STATES).optional(),
    new_state: z.enum(DELIVERY_STATES).optional(),
    text: z.string().optional(),
  })
  .meta({ id: 'HistoryLine' })

export const messageAnswer = z
  .object({
    id: z.uuid(),
    status: messageStatus.describe('Derived from the deliveries.'),
    stage: z.enum(STAGES),
    direction: z.enum(DIRECTIONS),
    source: z.string().describe('The source plugin instance; `api` for a message sent by hand.'),
    from: z.string(),
    to: z.string(),
    file_name: z.string(),
    content_type: z.string(),
    size_bytes: z.int().min(0),
    created_at: timestamp,
    updated_at: timestamp,
    settled_at: timestamp.nullable(),
    deliveries: z.array(delivery).describe('One a target, by creation and target.'),
    history: z.array(historyLine).describe('Oldest first.'),
    payloads: z
      .record(z.string(), z.object({ size_bytes: z.int().min(0), stored_at: timestamp }))
      .describe('The payload stages that the message has.'),
    protocols: z
      .record(z.string(), z.record(z.string(), z.unknown()))
      .describe('What protocol modules say of the message, by the name of the module.'),
  })
  .meta({ id: 'Message' })

export function shownMessage(message: MessageView, views: Readonly<Record<string, ProtocolView>>) {
  const { created_at, updated_at, settled_at, deliveries, history, payloads, protocols, ...open } = message
  return {
    ...open,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
    settled_at: settled_at?.toISOString() ?? null,
    deliveries: deliveries.map(shownDelivery),
    history: history.map(shownLine),
    payloads: Object.fromEntries(
      Object.entries(payloads).map(([stage, { size_bytes, stored_at }]) => [
        stage,
        { size_bytes, stored_at: stored_at.toISOString() },
      ]),
    ),
    protocols: shownProtocols(protocols, views),
  }
}

function shownDelivery(stored: DeliveryView) {
  const { next_attempt_at, created_at, updated_at, finished_at, ...open } = stored
  return {
    ...open,
    next_attempt_at: next_attempt_at?.toISOString() ?? null,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
    finished_at: finished_at?.toISOString() ?? null,
  }
}

function shownLine(line: HistoryLine) {
  return { ...line, created_at: line.created_at.toISOString() }
}

function shownProtocols(
  stored: Readonly<Record<string, unknown>>,
  views: Readonly<Record<string, ProtocolView>>,
) {
  const entries = Object.entries(views).map(([name, view]): [string, Record<string, unknown> | null] => {
    const facts = stored[name]
    const entry = facts === undefined ? null : view(facts)
    return [name, entry === null ? null : { ...entry }]
  })
  return Object.fromEntries(
    entries.filter((entry): entry is [string, Record<string, unknown>] => entry[1] !== null),
  )
}
