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
import { DELIVERY_EXAMPLE, HISTORY_LINE_EXAMPLE, MESSAGE_EXAMPLE } from './messages-example.ts'

/** A message as answers show it (specification, 2.7). */

const DELIVERY_STATES = Object.keys(DELIVERY_MOVES) as [DeliveryState, ...DeliveryState[]]

export const messageStatus = z.enum(STATUSES)

const delivery = z
  .object({
    id: z.int(),
    target: z.string().describe('The target plugin instance.'),
    state: z
      .enum(DELIVERY_STATES)
      .describe(
        '`queued` waits for its target, `delivering` is being worked on, `retrying` waits for its next attempt, `awaiting_ack` for the receipt; `delivered`, `failed` and `stalled` (no target took it) are final.',
      ),
    attempts: z.int().min(0).describe('How often it was tried; 0 again after a redelivery.'),
    next_attempt_at: timestamp.nullable().describe('Set while the delivery is retrying.'),
    last_error: z.string().nullable().describe('Why the last attempt failed.'),
    created_at: timestamp,
    updated_at: timestamp,
    finished_at: timestamp.nullable().describe('When it was delivered or given up.'),
  })
  .meta({
    id: 'Delivery',
    description: 'What becomes of a message at one target.',
    examples: [DELIVERY_EXAMPLE],
  })

export const historyLine = z
  .object({
    id: z.int(),
    message_id: z.uuid().describe('The message that the line is about.'),
    created_at: timestamp,
    kind: z.enum(HISTORY_KINDS).describe('What happened.'),
    old_status: messageStatus.optional().describe('Status of the message before.'),
    new_status: messageStatus.optional().describe('Status of the message since.'),
    delivery_id: z.int().optional().describe('The delivery that the line is about.'),
    target: z.string().optional().describe('Target of that delivery.'),
    old_state: z.enum(DELIVERY_STATES).optional().describe('State of the delivery before.'),
    new_state: z.enum(DELIVERY_STATES).optional().describe('State of the delivery since.'),
    text: z
      .string()
      .optional()
      .describe('What happened, in words; of what an operator asked for, who it was.'),
  })
  .meta({
    id: 'HistoryLine',
    description: 'One line of the history of a message. What it has nothing to say of is left out.',
    examples: [HISTORY_LINE_EXAMPLE],
  })

export const messageAnswer = z
  .object({
    id: z.uuid(),
    status: messageStatus.describe(
      'Derived from the deliveries, first that holds: `Refused` by its source, `Received` while the source owns it, `NotRouted` without deliveries, `Retrying`, `InProgress`, `AwaitingReceipt`, `Error`, `Stalled` when any delivery is so, and `Delivered` when all are.',
    ),
    stage: z
      .enum(STAGES)
      .describe('`accepted` while its source still owns it, `settled` when every delivery is final.'),
    direction: z.enum(DIRECTIONS).describe('`inbound` from a partner, `outbound` to one.'),
    source: z.string().describe('The source plugin instance; `api` for a message sent by hand.'),
    from: z.string().describe('Name of the sending party.'),
    to: z.string().describe('Name of the receiving party.'),
    file_name: z.string().describe('Name of the file; of several files that of the first that has one.'),
    content_type: z
      .string()
      .describe(
        'Media type of the content. `multipart/related` and `multipart/mixed` with a `boundary` are several files in one message (RFC 6362).',
      ),
    size_bytes: z.int().min(0).describe('Size of the content in bytes.'),
    created_at: timestamp,
    updated_at: timestamp,
    settled_at: timestamp.nullable().describe('When every delivery was final.'),
    deliveries: z.array(delivery).describe('One a target, by creation and target.'),
    history: z.array(historyLine).describe('Oldest first.'),
    payloads: z
      .record(
        z.string(),
        z.object({
          size_bytes: z.int().min(0).describe('Size in bytes.'),
          stored_at: timestamp.describe('When it was stored.'),
        }),
      )
      .describe('The payload stages that the message has, by their names.'),
    protocols: z
      .record(z.string(), z.record(z.string(), z.unknown()))
      .describe(
        'What protocol modules say of the message, by the name of the module. Under `as2`, `attachments` lists the files of a message with several, the root first and at most 100 of them (`file_name`, `content_type`, `size_bytes`), and `attachment_count` says how many there are; both are null for a message of one file. `signer_fingerprint_sha256` is that of the certificate which a received message was signed with.',
      ),
  })
  .meta({
    id: 'Message',
    description: 'A message with its deliveries, history and payload stages.',
    examples: [MESSAGE_EXAMPLE],
  })

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

/** The same in a message's history and as the data of an event. */
export function shownLine(line: HistoryLine) {
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
