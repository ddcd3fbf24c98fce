import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { Pool } from 'pg'
import {
  DELIVERY_MOVES,
  STATUS_MOVES,
  type DeliveryState,
  type Status,
} from '../../../storage/exchange/states.ts'
import { execute, query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'

t.setTimeout(300_000)

const STATES = Object.keys(DELIVERY_MOVES) as DeliveryState[]

/** The columns that each state carries, as SQL. */
const COLUMNS: Record<DeliveryState, string> = {
  queued: 'waiting_since = now()',
  delivering: `lease_owner = 'node/instance', lease_until = now()`,
  retrying: 'next_attempt_at = now()',
  awaiting_ack: 'receipt_due_at = now()',
  delivered: 'finished_at = now()',
  failed: 'finished_at = now()',
  stalled: 'finished_at = now()',
}
const NOTHING_CARRIED =
  'waiting_since = null, lease_owner = null, lease_until = null, next_attempt_at = null, receipt_due_at = null, finished_at = null'

/** `set` clause to a state with exactly what it carries. */
function moveTo(state: DeliveryState): string {
  const carried = new Set(COLUMNS[state].split(', ').map((assignment) => assignment.split(' = ')[0]))
  const cleared = NOTHING_CARRIED.split(', ').filter((assignment) => !carried.has(assignment.split(' = ')[0]))
  const number = state === 'delivering' ? ['fencing = fencing + 1'] : []
  return [`state = '${state}'`, ...cleared, COLUMNS[state], ...number].join(', ')
}

const STAGE_STATUSES = {
  accepted: ['Received'],
  dispatched: ['InProgress', 'Retrying', 'AwaitingReceipt'],
  settled: ['Stalled', 'Delivered', 'NotRouted', 'Refused', 'Error'],
} as const
const STATUSES = Object.values(STAGE_STATUSES).flat()

/** `stage`, `status` and `settled_at` of a message with this status, as SQL. */
function carriedBy(status: Status): readonly [string, string, string] {
  const stages = Object.entries(STAGE_STATUSES)
  const stage = stages.find(([, statuses]) => statuses.some((each) => each === status))?.[0] ?? ''
  return [`'${stage}'`, `'${status}'`, stage === 'settled' ? 'now()' : 'null']
}

async function insertMessage(pool: Pool, carried: readonly string[]): Promise<string> {
  const id = randomUUID()
  await execute(
    pool,
    `insert into message (id, direction, stage, status, settled_at, source, from_party, to_party, file_name, content_type, size_bytes)
     values ($1, 'outbound', ${carried.join(', ')}, 'source', 'a', 'b', 'f', 'text/plain', 1)`,
    [id],
  )
  return id
}

const newMessage = (pool: Pool, status: Status = 'InProgress'): Promise<string> =>
  insertMessage(pool, carriedBy(status))

/** A delivery in a state, as it could have come to it: the guard is on moves, not on how a row begins. */
async function deliveryIn(pool: Pool, state: DeliveryState): Promise<number> {
  const assignments = COLUMNS[state].split(', ').map((assignment) => assignment.split(' = '))
  const columns = assignments.map(([column]) => column).join(', ')
  const values = assignments.map(([, value]) => value).join(', ')
  const [row] = await query<{ id: number }>(
    pool,
    `insert into delivery (message_id, target, state, ${columns}) values ($1, 'target', '${state}', ${values}) returning id`,
    [await newMessage(pool)],
  )
  return row?.id ?? 0
}

void t.test(
  'the database allows the moves of a delivery that the table of states has, and no other',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    for (const from of STATES) {
      const allowed: readonly DeliveryState[] = DELIVERY_MOVES[from]
      for (const to of STATES) {
        const id = await deliveryIn(pool, from)
        const assignments = from === to ? `state = '${to}'` : moveTo(to)
        const move = execute(pool, `update delivery set ${assignments} where id = $1`, [id])
        if (from === to || allowed.includes(to)) t.equal(await move, 1, `${from} → ${to} is a move`)
        else
          await t.rejects(
            move,
            { code: '23514', message: `no move from ${from} to ${to}` },
            `${from} → ${to} is none`,
          )
      }
    }
  },
)

void t.test('a delivery carries what its state needs, and nothing that belongs to another', async (t) => {
  const { pool } = await createTestDatabase(t)
  for (const state of STATES) {
    for (const other of STATES) {
      const id = await deliveryIn(pool, state)
      const carry = execute(pool, `update delivery set ${NOTHING_CARRIED} where id = $1`, [id])
      await t.rejects(carry, { code: '23514' }, `${state} without its columns`)
      if (COLUMNS[other] === COLUMNS[state]) continue
      const mixed = execute(pool, `update delivery set ${COLUMNS[other]} where id = $1`, [id])
      await t.rejects(mixed, { code: '23514' }, `${state} with the columns of ${other}`)
    }
  }
})

void t.test('a message holds stage, status and settled_at together', async (t) => {
  const { pool } = await createTestDatabase(t)
  for (const stage of Object.keys(STAGE_STATUSES)) {
    for (const status of STATUSES) {
      for (const settledAt of ['now()', 'null']) {
        const given = [`'${stage}'`, `'${status}'`, settledAt]
        const change = insertMessage(pool, given)
        if (given.join() === carriedBy(status).join()) t.ok(await change, given.join(', '))
        else await t.rejects(change, { code: '23514' }, given.join(', '))
      }
    }
  }
})

void t.test(
  'the database allows the moves of a message that the table of states has, and no other',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    for (const from of STATUSES) {
      const allowed: readonly Status[] = STATUS_MOVES[from]
      for (const to of STATUSES) {
        const id = await newMessage(pool, from)
        const [stage, status, settledAt] = carriedBy(to)
        const text = `update message set stage = ${stage}, status = ${status}, settled_at = ${settledAt} where id = $1`
        const move = execute(pool, text, [id])
        if (from === to || allowed.includes(to)) t.equal(await move, 1, `${from} → ${to} is a move`)
        else
          await t.rejects(
            move,
            { code: '23514', message: `no move from ${from} to ${to}` },
            `${from} → ${to} is none`,
          )
      }
    }
  },
)

void t.test('a claim counts the fencing number up, and nothing else changes it', async (t) => {
  const { pool } = await createTestDatabase(t)
  for (const [from, to, number] of [
    ['queued', 'delivering', 'fencing'],
    ['queued', 'delivering', 'fencing + 2'],
    ['delivering', 'queued', 'fencing + 1'],
    ['delivering', 'delivered', 'fencing - 1'],
  ] as const) {
    const id = await deliveryIn(pool, from)
    const assignments = moveTo(to).replace(', fencing = fencing + 1', '')
    const text = `update delivery set ${assignments}, fencing = ${number} where id = $1`
    await t.rejects(execute(pool, text, [id]), { code: '23514', message: 'fencing number' })
  }
})

void t.test('the status of a message follows from its deliveries, first rule that holds', async (t) => {
  const { pool } = await createTestDatabase(t)
  const cases: [string[], string][] = [
    [[], 'NotRouted'],
    [['delivered'], 'Delivered'],
    [['delivered', 'stalled'], 'Stalled'],
    [['delivered', 'stalled', 'failed'], 'Error'],
    [['delivered', 'stalled', 'failed', 'awaiting_ack'], 'AwaitingReceipt'],
    [['failed', 'awaiting_ack', 'delivering'], 'InProgress'],
    [['failed', 'awaiting_ack', 'queued'], 'InProgress'],
    [['failed', 'awaiting_ack', 'queued', 'retrying'], 'Retrying'],
  ]
  for (const [states, status] of cases) {
    for (const given of [states, states.toReversed()]) {
      t.same(await query(pool, 'select status_of($1) as status', [given]), [{ status }], given.join(', '))
    }
  }
})
