/**
 * The states of messages and deliveries and the tables of their moves (specification, 2.7 and 3; the database holds
 * the same rules as constraints, a trigger and the function `status_of`).
 */

export const DIRECTIONS = ['inbound', 'outbound'] as const
export type Direction = (typeof DIRECTIONS)[number]

/** `accepted`: the source still owns it. `dispatched`: it has deliveries that are not final. */
export const STAGES = ['accepted', 'dispatched', 'settled'] as const
export type Stage = (typeof STAGES)[number]

export const STATUSES = [
  'Received',
  'InProgress',
  'Retrying',
  'AwaitingReceipt',
  'Stalled',
  'Delivered',
  'NotRouted',
  'Refused',
  'Error',
] as const
export type Status = (typeof STATUSES)[number]

const UNDER_WAY = ['InProgress', 'Retrying', 'AwaitingReceipt', 'Stalled', 'Delivered', 'Error'] as const

/**
 * A message is refused at once or never, and has deliveries from the first one on. Redelivery and redispatch lead from
 * every end but a refusal back to InProgress.
 */
export const STATUS_MOVES = {
  Received: ['InProgress', 'NotRouted'],
  InProgress: UNDER_WAY,
  Retrying: UNDER_WAY,
  AwaitingReceipt: UNDER_WAY,
  Stalled: ['InProgress'],
  Delivered: ['InProgress'],
  Error: ['InProgress'],
  NotRouted: ['InProgress'],
  Refused: [],
} as const satisfies Record<Status, readonly Status[]>

/**
 * queued → delivering → delivered, awaiting_ack, retrying or failed. A claim that is cut off goes back to queued, and
 * fails when it was cut off too often in a row; what no target claims becomes stalled. Redelivery and redispatch lead back to queued.
 */
export const DELIVERY_MOVES = {
  queued: ['delivering', 'stalled'],
  delivering: ['delivered', 'awaiting_ack', 'retrying', 'failed', 'queued'],
  retrying: ['delivering', 'queued'],
  awaiting_ack: ['delivered', 'failed'],
  delivered: ['queued'],
  failed: ['queued'],
  stalled: ['queued'],
} as const satisfies Record<string, readonly string[]>

export type DeliveryState = keyof typeof DELIVERY_MOVES

/** From these an operator may ask for a redelivery (specification, 3.3). */
export const REDELIVERABLE_STATES = [
  'failed',
  'stalled',
  'retrying',
  'delivered',
] as const satisfies readonly DeliveryState[]

/** The stages of a message that may be redispatched: all but the one in which its source owns it. */
export const REDISPATCHABLE_STAGES = ['dispatched', 'settled'] as const satisfies readonly Stage[]

export const HISTORY_KINDS = [
  'status_changed',
  'delivery_changed',
  'mdn_received',
  'mdn_refused',
  'duplicate_received',
  'redispatch_requested',
  'redeliver_requested',
] as const
export type HistoryKind = (typeof HISTORY_KINDS)[number]

/** The payload stages that are stored; `message` is made from headers and received. */
export const PAYLOAD_STAGES = ['unpacked', 'received', 'headers', 'receipt'] as const
export type PayloadStage = (typeof PAYLOAD_STAGES)[number]
