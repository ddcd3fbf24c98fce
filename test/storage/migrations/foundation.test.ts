import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { Pool } from 'pg'
import { DELIVERY_MOVES, type DeliveryState } from '../../../storage/exchange/states.ts'
import { execute, query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'

const STATES = Object.keys(DELIVERY_MOVES) as DeliveryState[]

/** The columns that each state carries, as SQL. */
const COLUMNS: Record<DeliveryState, string> = {
  queued: 'announce_at = now()',
  delivering: `lease_owner = 'node/instance', lease_until = now()`,
  retrying: 'next_attempt_at = now()',
  awaiting_ack: 'attempts = 1',
  delivered: 'finished_at = now()',
  failed: 'finished_at = now()',
  stalled: 'finished_at = now()',
}
const NOTHING_CARRIED =
  'announce_at = null, lease_owner = null, lease_until = null, next_attempt_at = null, finished_at = null'

/** `set` clause to a state with exactly what it carries. */
function moveTo(state: DeliveryState): string {
  const carried = new Set(COLUMNS[state].split(', ').map((assignment) => assignment.split(' = ')[0]))
  const cleared = NOTHING_CARRIED.split(', ').filter((assignment) => !carried.has(assignment.split(' = ')[0]))
  return [`state = '${state}'`, ...cleared, COLUMNS[state]].join(', ')
}

async function newMessage(pool: Pool): Promise<string> {
  const id = randomUUID()
  await execute(
    pool,
    `insert into message (id, direction, stage, status, source, from_party, to_party, file_name, content_type, size_bytes)
     values ($1, 'outbound', 'dispatched', 'InProgress', 'source', 'a', 'b', 'f', 'text/plain', 1)`,
    [id],
  )
  return id
}

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
        const move = execute(pool, `update delivery set ${moveTo(to)} where id = $1`, [id])
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
      const carry = execute(pool, `update delivery set ${NOTHING_CARRIED}, attempts = 0 where id = $1`, [id])
      if (state === 'awaiting_ack') t.equal(await carry, 1)
      else await t.rejects(carry, { code: '23514' }, `${state} without its columns`)
      if (COLUMNS[other] === COLUMNS[state] || other === 'awaiting_ack') continue
      const mixed = execute(pool, `update delivery set ${COLUMNS[other]} where id = $1`, [id])
      await t.rejects(mixed, { code: '23514' }, `${state} with the columns of ${other}`)
    }
  }
})

void t.test('a message holds stage, status and settled_at together', async (t) => {
  const { pool } = await createTestDatabase(t)
  const statusesOf = {
    accepted: ['Received'],
    dispatched: ['InProgress', 'Retrying', 'AwaitingReceipt'],
    settled: ['Stalled', 'Delivered', 'NotRouted', 'Refused', 'Error'],
  }
  const all = Object.values(statusesOf).flat()
  for (const [stage, statuses] of Object.entries(statusesOf)) {
    for (const status of all) {
      for (const settledAt of ['now()', 'null']) {
        const id = await newMessage(pool)
        const text = `update message set stage = $2, status = $3, settled_at = ${settledAt} where id = $1`
        const change = execute(pool, text, [id, stage, status])
        const right = statuses.includes(status) && (stage === 'settled') === (settledAt === 'now()')
        if (right) t.equal(await change, 1, `${stage} ${status} ${settledAt}`)
        else await t.rejects(change, { code: '23514' }, `${stage} ${status} ${settledAt}`)
      }
    }
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
