import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import type { Pool, PoolClient } from 'pg'
import { listMessages } from '../../storage/exchange/messages.ts'
import { outcomeOfFailure } from '../../storage/exchange/retry.ts'
import { REDELIVERABLE_STATES, type DeliveryState } from '../../storage/exchange/states.ts'
import { journaled } from '../../storage/exchange/stages.ts'
import { query, type Queryable } from '../../storage/postgres/pool.ts'
import { expectReceipt, takeReceipt } from '../../storage/receipts/expected-receipts.ts'
import { accept } from '../../storage/sql/accept.ts'
import { claim, renewLeases, takeBack, type ClaimedDelivery } from '../../storage/sql/claim.ts'
import { dispatch } from '../../storage/sql/dispatch.ts'
import { announceWaiting, failOverdue, reclaim, stallWaiting, tick } from '../../storage/sql/maintain.ts'
import { redeliver } from '../../storage/sql/redeliver.ts'
import { redispatch } from '../../storage/sql/redispatch.ts'
import { settle, type Outcome, type Settlement } from '../../storage/sql/settle.ts'
import { until } from '../support/processes.ts'
import { newMessage, receiptFor, settlementOf } from '../storage/exchange/fixture.ts'
import { TARGETS, type Operation } from './operations.ts'
import { Record, type DeliveryRecord } from './record.ts'

type Act<Kind extends Operation['kind']> = Extract<Operation, { kind: Kind }>

/** Exchange time stands still between the operations: the server's clock is kept from it. */
const FROZEN = `shift = '-87600 hours'`
const RESET = `delete from message; delete from route; delete from target_work; delete from journal;
  select fold_message_changes(100000); delete from acceptance_note;
  update exchange_clock set holder = null, held_until = null, announced_at = null, ticked_at = now(), ${FROZEN};
  insert into route (source_plugin, target_plugin) values ('source', 'a');`
/** The test server does not clean up by itself, and every run leaves dead rows behind. */
const CLEAN =
  'vacuum message, delivery, history, journal, route, message_change, message_count, acceptance_note, exchange_clock'
const CLEAN_EVERY = 20
const POLICY = { retry_max_attempts: 3, retry_initial_seconds: 10, retry_max_seconds: 60 }

interface Held {
  readonly claimed: ClaimedDelivery
  readonly owner: string
}

/** What the operations of one run act on: the records of one database, and what its workers remember. */
export class World {
  readonly #pool: Pool
  readonly #record = new Record()
  readonly #claims: Held[] = []

  private constructor(pool: Pool) {
    this.#pool = pool
  }

  /** Prepares a database once. */
  static async prepare(pool: Pool): Promise<void> {
    for (const [name, role] of [['source', 'source'], ...TARGETS.map((target) => [target, 'target'])]) {
      await query(
        pool,
        `insert into plugin_configuration (name, type, role, enabled, settings, secrets) values ($1, 'test', $2, true, '{}', '')`,
        [name, role],
      )
    }
  }

  /** Begins a run, with nothing in the records. */
  static async begin(pool: Pool, number: number): Promise<World> {
    await pool.query(RESET)
    if (number % CLEAN_EVERY === 0) await pool.query(CLEAN)
    const world = new World(pool)
    await world.#record.follow(pool)
    return world
  }

  /** Carries one operation out, breaks its connection if so told, and checks all that must hold. */
  async perform(operation: Operation): Promise<void> {
    const { kind, fault } = operation
    if (fault === 'none' || fault === 'unheard') {
      const expectation = await this.#act(operation, this.#pool, fault === 'none')
      if (expectation === 'nothing') await this.#record.unchanged(this.#pool, kind)
      else await this.#record.follow(this.#pool)
      return
    }
    const client = await this.#pool.connect()
    try {
      await client.query('begin')
      await this.#act(operation, client, false)
      if (fault === 'killed') await breakConnection(this.#pool, client)
      else await client.query('rollback')
    } finally {
      client.release(fault === 'killed')
    }
    await this.#record.unchanged(this.#pool, `${kind}, ${fault}`)
  }

  /** At the end all comes to an end: nothing is left in a state that nobody can move, and every total is right. */
  async finish(): Promise<void> {
    await this.#pass(100_000)
    await reclaim(this.#pool)
    await failOverdue(this.#pool)
    await this.#record.follow(this.#pool)
    const open = this.#record.deliveries.filter(({ state }) => state === 'queued' || state === 'retrying')
    for (const target of new Set(open.map((delivery) => delivery.target))) {
      let left = open.filter((delivery) => delivery.target === target).length
      while (left > 0) {
        const request = { target, limit: 100, owner: `last/${target}/run/1`, leaseSeconds: 60 }
        const claimed = await claim(this.#pool, request)
        assert(claimed.length > 0, 'whatever waits can be claimed')
        left -= claimed.length
        const settlements = claimed.map((each) => settlementOf(each, { state: 'delivered' }))
        const held = await settle(this.#pool, settlements)
        assert.equal(held.size, claimed.length)
      }
    }
    await this.#record.follow(this.#pool)
    const { deliveries, messages } = this.#record
    const ended = new Set<DeliveryState>(['delivered', 'failed', 'stalled'])
    assert.deepEqual(
      deliveries.filter(({ state }) => !ended.has(state)),
      [],
      'every delivery can be brought to its end',
    )
    for (const status of [undefined, 'Delivered', 'Error'] as const) {
      const { total } = await listMessages(this.#pool, { status }, { limit: 1, offset: 0 })
      const matching = messages.filter((message) => status === undefined || message.status === status)
      assert.equal(total, matching.length, `the count of ${status ?? 'all'}`)
    }
  }

  /**
   * Answers `nothing` when nothing may have changed.
   *
   * @param heard whether the answer comes back: if not, nobody knows of what was claimed.
   */
  async #act(operation: Operation, on: Queryable, heard: boolean): Promise<'nothing' | 'something'> {
    switch (operation.kind) {
      case 'accept':
        return this.#accept(operation, on)
      case 'dispatch':
        return this.#dispatch(operation, on)
      case 'claim':
        return this.#claim(operation, on, heard)
      case 'settle':
        return this.#settle(operation, on)
      case 'renew':
        return this.#renew(operation, on)
      case 'break down': {
        const { node, target, alone } = operation
        await takeBack(on, `node-${node}/${target}/`, alone ? 'run' : null)
        return 'something'
      }
      case 'clock':
        return this.#clock(operation, on)
      case 'send':
        return this.#send(operation, on)
      case 'receipt':
        return this.#receipt(operation, on)
      case 'redispatch':
        return this.#redispatch(operation, on)
      case 'redeliver':
        return this.#redeliver(operation, on)
      case 'route':
        await query(
          on,
          `with gone as (delete from route where target_plugin = $1 returning id)
           insert into route (source_plugin, target_plugin) select 'source', $1 where not exists (select from gone)`,
          [operation.target],
        )
        return 'nothing'
      case 'pass':
        await this.#pass(operation.seconds)
        return 'nothing'
      case 'jump':
        await this.#jump(operation.seconds)
        return 'nothing'
    }
  }

  async #accept({ count, as, target }: Act<'accept'>, on: Queryable) {
    const messages = Array.from({ length: count }, () =>
      newMessage({
        refusal: as === 'refused' ? 'The signature does not verify' : null,
        dispatch: as !== 'owned',
        sourceReference: as === 'owned' ? '{}' : null,
        duplicateKey: as === 'repeat' ? hash('sha256', target, 'buffer') : null,
        protocols: { as2: { receipt: { state: 'pending' } } },
        ...(as === 'by hand' ? { byHand: { target, sender: 'somebody' } } : {}),
      }),
    )
    return (await accept(on, messages)).length === 0 ? 'nothing' : 'something'
  }

  async #dispatch({ pick }: Act<'dispatch'>, on: Queryable) {
    const message = chosen(this.#record.messages, pick)
    if (message === undefined) return 'nothing'
    const dispatched = await dispatch(on, [message.id])
    assert.equal(dispatched.length, message.stage === 'accepted' ? 1 : 0)
    return dispatched.length === 0 ? 'nothing' : 'something'
  }

  async #claim({ target, limit, node, leaseSeconds }: Act<'claim'>, on: Queryable, heard: boolean) {
    const owner = `node-${node}/${target}/run/1`
    const claimed = await claim(on, { target, limit, owner, leaseSeconds })
    assert(claimed.length <= limit)
    const before = new Map(this.#record.deliveries.map((delivery) => [delivery.id, delivery]))
    for (const each of claimed) {
      const was = before.get(each.id)
      assert(was !== undefined && was.target === target && ['queued', 'retrying'].includes(was.state))
      assert.deepEqual([each.fencing, each.attempts], [was.fencing + 1, was.attempts + 1])
      if (heard) this.#claims.push({ claimed: each, owner })
    }
    const waiting = [...before.values()].filter((each) => each.target === target && each.state === 'queued')
    const plain = waiting.filter(({ cut_offs }) => cut_offs < 2).map(({ id }) => id)
    const taken = claimed.map(({ id }) => id).filter((id) => plain.includes(id))
    assert.deepEqual(taken, plain.slice(0, taken.length), 'the oldest come first')
    return claimed.length === 0 ? 'nothing' : 'something'
  }

  async #settle({ pick, more, outcome, seconds }: Act<'settle'>, on: Queryable) {
    const first = this.#claims.length === 0 ? 0 : pick % this.#claims.length
    const settlements = new Map<string, Settlement>()
    for (const { claimed } of this.#claims.slice(first, first + 1 + more)) {
      settlements.set(claimed.message_id, {
        ...settlementOf(claimed, outcomeNamed(outcome, claimed.attempts, seconds)),
        protocols: { other: { attempts: claimed.attempts } },
        stage: seconds === 10 ? journaled('receipt', Buffer.from('receipt')) : null,
        line: seconds === 40 ? { kind: 'mdn_received', text: 'processed' } : null,
      })
    }
    const before = new Map(this.#record.deliveries.map((delivery) => [delivery.id, delivery]))
    const expected = [...settlements.values()].filter(({ deliveryId, fencing }) => {
      const present = before.get(deliveryId)
      return present?.state === 'delivering' && present.fencing === fencing
    })
    const held = await settle(on, [...settlements.values()])
    assert.deepEqual(held, new Set(expected.map(({ deliveryId }) => deliveryId)), 'fencing')
    return held.size === 0 ? 'nothing' : 'something'
  }

  async #renew({ pick }: Act<'renew'>, on: Queryable): Promise<'nothing'> {
    const held = chosen(this.#claims, pick)
    const target = held?.owner.split('/')[1]
    if (held !== undefined && target !== undefined)
      await renewLeases(on, { target, owner: held.owner, leaseSeconds: 60 })
    return 'nothing'
  }

  async #clock({ step, announcements }: Act<'clock'>, on: Queryable) {
    switch (step) {
      case 'reclaim':
        return (await reclaim(on)).size === 0 ? 'nothing' : 'something'
      case 'overdue':
        return (await failOverdue(on)) === 0 ? 'nothing' : 'something'
      case 'stall':
        return (await stallWaiting(on, announcements)) === 0 ? 'nothing' : 'something'
      case 'announce':
        await announceWaiting(on, announcements)
        return 'nothing'
    }
  }

  /** A claimed message goes out, so that its receipt may come before the attempt is settled. */
  async #send({ pick }: Act<'send'>, on: Queryable) {
    const claimed = chosen(this.#claims, pick)?.claimed
    if (claimed === undefined) return 'nothing'
    const present = this.#record.deliveries.find(({ id }) => id === claimed.id)
    const expected = await expectReceipt(on, {
      messageId: claimed.message_id,
      deliveryId: claimed.id,
      fencing: claimed.fencing,
      sentAs: `${claimed.message_id}@waybill`,
      heldAgainst: {},
      protocols: { as2: { receipt: { state: 'pending' } } },
    })
    const isHeld = present?.state === 'delivering' && present.fencing === claimed.fencing
    const answered = present?.receipt_verdict == null ? 'awaited' : 'answered'
    assert.equal(expected, isHeld ? answered : 'lost')
    return expected === 'lost' ? 'nothing' : 'something'
  }

  async #receipt({ pick, positive }: Act<'receipt'>, on: Queryable) {
    const message = chosen(this.#record.messages, pick)
    if (message === undefined) return 'nothing'
    const waits = this.#record.deliveries.some(
      ({ message_id, state, receipt_open, receipt_verdict }) =>
        message_id === message.id &&
        (state === 'awaiting_ack' ||
          (receipt_open && receipt_verdict === null && ['queued', 'delivering', 'retrying'].includes(state))),
    )
    const taken = await takeReceipt(on, receiptFor(message.id, positive ? null : 'The receipt says: failed'))
    assert.equal(taken?.effect === 'counted', waits)
    return 'something'
  }

  async #redispatch({ pick }: Act<'redispatch'>, on: Queryable) {
    const message = chosen(this.#record.messages, pick)
    if (message === undefined) return 'nothing'
    const done = await redispatch(on, message.id, 'somebody')
    assert.equal(done?.stage, message.stage)
    return done.targets.length === 0 ? 'nothing' : 'something'
  }

  async #redeliver({ pick, stranger }: Act<'redeliver'>, on: Queryable) {
    const delivery = chosen(this.#record.deliveries, pick)
    if (delivery === undefined) return 'nothing'
    const messageId = stranger ? '018f0000-0000-7000-8000-000000000000' : delivery.message_id
    const done = await redeliver(on, { messageId, deliveryId: String(delivery.id) }, 'somebody')
    if (stranger) assert.equal(done, null)
    else assert.equal(done?.requeued, redeliverable(delivery))
    return done?.requeued === true ? 'something' : 'nothing'
  }

  async #pass(seconds: number): Promise<void> {
    await query(this.#pool, 'update exchange_clock set ticked_at = ticked_at + make_interval(secs => $1)', [
      seconds,
    ])
  }

  /** The server's date is changed between two ticks: exchange time goes on by seconds at most, and never back. */
  async #jump(seconds: number): Promise<void> {
    const time = async (): Promise<number> => {
      const text = 'select extract(epoch from ticked_at)::float as at from exchange_clock'
      const [row] = await query<{ at: number }>(this.#pool, text)
      return row?.at ?? 0
    }
    const before = await time()
    const text =
      'update exchange_clock set shift = make_interval(secs => extract(epoch from ticked_at - now()) + $1)'
    await query(this.#pool, text, [seconds])
    await tick(this.#pool, 'node', 5)
    const passed = Math.round(((await time()) - before) * 1000) / 1000
    assert.equal(passed, seconds > 0 ? 15 : 0)
    await this.#pool.query(`update exchange_clock set holder = null, held_until = null, ${FROZEN}`)
  }
}

function chosen<T>(list: readonly T[], pick: number): T | undefined {
  return list[pick % Math.max(1, list.length)]
}

function redeliverable({ state }: DeliveryRecord): boolean {
  return (REDELIVERABLE_STATES as readonly DeliveryState[]).includes(state)
}

function outcomeNamed(name: Outcome['state'], attempts: number, seconds: number): Outcome {
  switch (name) {
    case 'delivered':
      return { state: name }
    case 'awaiting_ack':
      return { state: name, deadlineSeconds: seconds }
    case 'queued':
      return { state: name, error: 'stopped' }
    case 'failed':
      return { state: name, error: 'refused' }
    case 'retrying':
      return outcomeOfFailure(new Error('no answer'), attempts, POLICY, 0)
  }
}

/** Ends the server's side of a connection, and waits until all that it held is given up. */
async function breakConnection(pool: Pool, client: PoolClient): Promise<void> {
  const [row] = await query<{ pid: number }>(client, 'select pg_backend_pid() as pid')
  client.on('error', () => undefined)
  await query(pool, 'select pg_terminate_backend($1)', [row?.pid])
  await until(async () => {
    const left = await query(pool, 'select from pg_stat_activity where pid = $1', [row?.pid])
    return left.length === 0
  })
}
