/** A message for the OpenAPI document: sent over AS2 at the second attempt, and not yet received by the other target. */

const ID = '0198c2f4-6a3e-7c11-9d52-3b1f0a7e4c68'

export const DELIVERY_EXAMPLE = {
  id: 17,
  target: 'as2-out',
  state: 'delivered',
  attempts: 2,
  next_attempt_at: null,
  last_error: null,
  created_at: '2026-03-02T09:30:00.000Z',
  updated_at: '2026-03-02T09:31:04.180Z',
  finished_at: '2026-03-02T09:31:04.180Z',
}

const RETRIED_EXAMPLE = {
  id: 18,
  target: 'archive',
  state: 'retrying',
  attempts: 1,
  next_attempt_at: '2026-03-02T09:30:31.000Z',
  last_error: 'The directory /archive cannot be written to',
  created_at: '2026-03-02T09:30:00.000Z',
  updated_at: '2026-03-02T09:30:01.020Z',
  finished_at: null,
}

export const HISTORY_LINE_EXAMPLE = {
  id: 4713,
  message_id: ID,
  created_at: '2026-03-02T09:30:00.210Z',
  kind: 'delivery_changed',
  delivery_id: 17,
  target: 'as2-out',
  old_state: 'queued',
  new_state: 'delivering',
}

export const MESSAGE_EXAMPLE = {
  id: ID,
  status: 'Retrying',
  stage: 'dispatched',
  direction: 'outbound',
  source: 'outbox',
  from: 'acme',
  to: 'globex',
  file_name: 'invoice-4711.edi',
  content_type: 'application/edifact',
  size_bytes: 10_240,
  created_at: '2026-03-02T09:30:00.000Z',
  updated_at: '2026-03-02T09:31:04.180Z',
  settled_at: null,
  deliveries: [DELIVERY_EXAMPLE, RETRIED_EXAMPLE],
  history: [
    {
      id: 4711,
      message_id: ID,
      created_at: '2026-03-02T09:30:00.000Z',
      kind: 'status_changed',
      new_status: 'Received',
    },
    {
      id: 4712,
      message_id: ID,
      created_at: '2026-03-02T09:30:00.000Z',
      kind: 'status_changed',
      old_status: 'Received',
      new_status: 'InProgress',
    },
    HISTORY_LINE_EXAMPLE,
  ],
  payloads: { unpacked: { size_bytes: 10_240, stored_at: '2026-03-02T09:30:00.000Z' } },
  protocols: {},
}
