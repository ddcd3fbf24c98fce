import assert from 'node:assert/strict'
import type { Pool } from 'pg'
import {
  DELIVERY_MOVES,
  STATUS_MOVES,
  type DeliveryState,
  type HistoryKind,
  type Stage,
  type Status,
} from '../../storage/exchange/states.ts'
import { query } from '../../storage/postgres/pool.ts'

export interface MessageRecord {
  readonly id: string
  readonly status: Status
  readonly stage: Stage
  readonly updated_at: string
}

export interface DeliveryRecord {
  readonly id: number
  readonly message_id: string
  readonly target: string
  readonly state: DeliveryState
  readonly attempts: number
  readonly fencing: number
  readonly cut_offs: number
  /** Whether a receipt counts before the attempt is settled, and what one said. */
  readonly receipt_open: boolean
  readonly receipt_verdict: 'delivered' | 'failed' | null
  readonly updated_at: string
}

export interface Line {
  readonly id: number
  readonly message_id: string
  readonly kind: HistoryKind
  readonly old_status: Status | null
  readonly new_status: Status | null
  readonly delivery_id: number | null
  readonly target: string | null
  readonly old_state: DeliveryState | null
  readonly new_state: DeliveryState | null
}

interface Present {
  readonly messages: readonly MessageRecord[]
  readonly deliveries: readonly DeliveryRecord[]
  readonly lines: readonly Line[]
}

const PRESENT = `select
  (select coalesce(json_agg(m order by m.id), '[]') from (select id, status, stage, updated_at from message) m) as messages,
  (select coalesce(json_agg(d order by d.id), '[]') from (
    select id, message_id, target, state, attempts, fencing, cut_offs, receipt_open, receipt_verdict, updated_at
    from delivery) d) as deliveries,
  (select coalesce(json_agg(h order by h.id), '[]') from history h where h.id > $1) as lines`

/**
 * What the history tells, line by line, held against what the records say. Whatever changes a record must write the lines
 * that explain it, and only moves of the tables may be among them.
 */
export class Record {
  messages: readonly MessageRecord[] = []
  deliveries: readonly DeliveryRecord[] = []
  readonly #statuses = new Map<string, Status>()
  readonly #states = new Map<number, DeliveryState>()
  readonly #claims = new Map<number, number>()
  #lastLine = 0

  /** Reads what was committed since, and checks all of it. Answers the new lines. */
  async follow(pool: Pool): Promise<readonly Line[]> {
    const [present] = await query<Present>(pool, PRESENT, [this.#lastLine], 'present')
    assert(present !== undefined)
    for (const line of present.lines) this.#read(line)
    this.messages = present.messages
    this.deliveries = present.deliveries
    this.#check()
    return present.lines
  }

  /** Follows what must not have changed anything. */
  async unchanged(pool: Pool, why: string): Promise<void> {
    const { messages, deliveries } = this
    assert.deepEqual(await this.follow(pool), [], `${why}: no line is written`)
    assert.deepEqual(this.messages, messages, `${why}: no message changes`)
    assert.deepEqual(this.deliveries, deliveries, `${why}: no delivery changes`)
  }

  #read(line: Line): void {
    this.#lastLine = line.id
    if (line.kind === 'status_changed') {
      const { message_id, old_status, new_status } = line
      assert(new_status !== null)
      assert.equal(old_status, this.#statuses.get(message_id) ?? null, 'a status follows the one before')
      if (old_status !== null) assertMove(STATUS_MOVES[old_status], old_status, new_status)
      this.#statuses.set(message_id, new_status)
    }
    if (line.kind === 'delivery_changed') {
      const { delivery_id, old_state, new_state } = line
      assert(delivery_id !== null && new_state !== null)
      assert.equal(old_state, this.#states.get(delivery_id) ?? null, 'a state follows the one before')
      if (old_state === null) assert.equal(new_state, 'queued', 'a delivery begins as queued')
      else assertMove(DELIVERY_MOVES[old_state], old_state, new_state)
      this.#states.set(delivery_id, new_state)
      if (new_state === 'delivering') this.#claims.set(delivery_id, (this.#claims.get(delivery_id) ?? 0) + 1)
    }
  }

  #check(): void {
    for (const { id, status, stage } of this.messages) {
      assert.equal(status, this.#statuses.get(id), 'the history tells the status')
      const states = this.deliveries.filter(({ message_id }) => message_id === id).map(({ state }) => state)
      if (stage === 'accepted' || status === 'Refused') {
        assert.deepEqual(states, [], 'what is owned or refused has no deliveries')
        assert.equal(status, stage === 'accepted' ? 'Received' : 'Refused')
      } else assert.equal(status, statusOf(states), 'the status follows from the deliveries')
      const isFinal = states.every((state) => ['delivered', 'failed', 'stalled'].includes(state))
      assert.equal(stage === 'dispatched', stage !== 'accepted' && !isFinal, 'settled: nothing is open')
    }
    assert.equal(this.#statuses.size, this.messages.length)
    for (const { id, state, fencing, attempts, receipt_verdict } of this.deliveries) {
      assert.equal(state, this.#states.get(id), 'the history tells the state')
      assert.equal(fencing, this.#claims.get(id) ?? 0, 'the fencing number counts the claims')
      assert(attempts <= fencing, 'every attempt was claimed')
      const contradicts = state === 'delivered' && receipt_verdict === 'failed'
      assert(!contradicts && (state !== 'awaiting_ack' || receipt_verdict === null), 'a receipt decides')
    }
    assert.equal(this.#states.size, this.deliveries.length)
    for (const target of new Set(this.deliveries.map((delivery) => delivery.target))) {
      const suspects = this.deliveries.filter(
        (each) => each.target === target && each.state === 'delivering' && each.cut_offs >= 2,
      )
      assert(suspects.length <= 1, 'of what is cut off again and again, one is worked on at a time')
    }
  }
}

function assertMove(allowed: readonly string[], from: string, to: string): void {
  assert(allowed.includes(to), `no move from ${from} to ${to}`)
}

/** The table of the states of a message, first rule that holds. */
function statusOf(states: readonly DeliveryState[]): Status {
  if (states.length === 0) return 'NotRouted'
  if (states.includes('retrying')) return 'Retrying'
  if (states.includes('queued') || states.includes('delivering')) return 'InProgress'
  if (states.includes('awaiting_ack')) return 'AwaitingReceipt'
  if (states.includes('failed')) return 'Error'
  return states.includes('stalled') ? 'Stalled' : 'Delivered'
}
