import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool, PoolClient } from 'pg'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { OperatorError } from '../../runtime/errors.ts'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import { transaction } from '../postgres/pool.ts'
import { beginningOfChain, EVENT_VERSION, eventHash, headMac, isSameHash } from './chain.ts'
import { boundedText, changesBetween } from './changes.ts'
import { listEvents, type AuditEvent, type AuditFilter } from './events.ts'
import { LateEvents, type RequestLog } from './late-events.ts'
import type { NewAuditEvent } from './new-audit-event.ts'
import { eventOf, runIn, runOn, type Run, type StoredEvent } from './stored-event.ts'
import type { Verification } from './verification.ts'
import { keepWitness, readHead, verifyLog } from './verify.ts'

export interface AuditLogOptions {
  readonly pool: Pool
  /** AUDIT_KEY; null for a log that is not chained. */
  readonly key: string | null
  /**
   * Refuses to write with another key than the chain has, or without one: for commands, whose environment may lack
   * what the server has. One event would be enough, and the log never verifies again.
   */
  readonly keepsChain?: true
}

/** No subject, name or id is as long; a text from outside that is, is cut off. */
const LONGEST_NAME = 300

/**
 * The audit log. An event is written in the transaction of its change, as the last thing in it: with a key, whoever
 * writes holds the head of the chain until the transaction ends, and everybody else who writes waits.
 */
export class AuditLog {
  readonly #pool: Pool
  readonly #key: string | null
  readonly #keepsChain: boolean
  readonly #lateEvents = new LateEvents((caller, event) => this.recordAlone(caller, event))

  constructor(options: AuditLogOptions) {
    this.#pool = options.pool
    this.#key = options.key
    this.#keepsChain = options.keepsChain ?? false
  }

  /** Writes an event in the transaction of `em`. What `em` has not flushed yet is flushed first. */
  async record(em: EntityManager, caller: Caller, event: NewAuditEvent): Promise<void> {
    await em.flush()
    await this.#write(runIn(em), caller, event)
  }

  /** Writes an event in the transaction that `client` holds. */
  async recordOn(client: PoolClient, caller: Caller, event: NewAuditEvent): Promise<void> {
    await this.#write(runOn(client), caller, event)
  }

  /**
   * The event of a record that one statement makes, as a part of that statement; null where a chain needs a transaction.
   * The statement names the new record `stored` and gives its parameters from `$first` on.
   */
  alongside(caller: Caller, event: Omit<NewAuditEvent, 'recordId'>, first: number): StatementPart | null {
    if (this.#key !== null || this.#keepsChain) return null
    const { actor, action, kind, record_name, changes } = factsOf(caller, { ...event, recordId: null })
    const [a, b, c, d, e] = [first, first + 1, first + 2, first + 3, first + 4].map((at) => `$${at}`)
    const text = `insert into audit_event (actor, action, kind, record_id, record_name, changes)
      select ${a}, ${b}, ${c}, stored.id::text, ${d}, ${e}::json from stored`
    return { text, values: [actor, action, kind, record_name, changes] }
  }

  /** Writes an event of what no transaction does, such as the start of an instance. */
  async recordAlone(caller: Caller, event: NewAuditEvent): Promise<void> {
    await transaction(this.#pool, (client) => this.recordOn(client, caller, event))
  }

  /** The same of what stands whatever becomes of its event: one that meets an outage is written after it. */
  recordDone(caller: Caller, event: NewAuditEvent, log: RequestLog): Promise<void> {
    return this.#lateEvents.record(caller, event, log)
  }

  /** Newest first. */
  list(filter: AuditFilter, page: PageRequest): Promise<Page<AuditEvent>> {
    return listEvents(this.#pool, filter, page)
  }

  /** Reads the whole log. Throws AUDIT_KEY_REQUIRED for a chained log without a key. */
  verify(): Promise<Verification> {
    return verifyLog(this.#pool, this.#key)
  }

  /**
   * Keeps what a verification has found: as an event, and the head of a log that verifies for the next one. A process
   * with another key than the chain's writes none: looking at the log must not break it.
   */
  async noteVerification(caller: Caller, found: Verification): Promise<void> {
    await transaction(this.#pool, async (client) => {
      if ((await this.#keyProblem(runOn(client))) !== null) return
      if (this.#key !== null) await keepWitness(client, this.#key, found)
      await this.recordOn(client, caller, {
        action: 'verified',
        kind: 'audit-log',
        recordId: null,
        recordName: 'audit log',
        changes: changesBetween(null, found),
      })
    })
  }

  /** What an operator should know of the key that this process was started with; null for nothing. */
  keyWarning(): Promise<string | null> {
    return this.#keyProblem(runOn(this.#pool))
  }

  async #keyProblem(run: Run): Promise<string | null> {
    const head = await readHead(run)
    if (head === null)
      return 'The head of the audit chain was removed from the database: nothing can be added to the log'
    if (head.lastId === 0) return null
    if (this.#key === null)
      return 'AUDIT_KEY is not set, but the audit log is chained: with one event more it would not verify any more'
    if (isSameHash(head.mac, headMac(this.#key, head))) return null
    // The last one who wrote may have had the wrong key. Who began the chain had the right one.
    const first = await eventOf(run, head.firstId)
    if (first !== null && isSameHash(first.hash, eventHash(this.#key, first))) return null
    return 'AUDIT_KEY is not the key that the audit log is chained with: with one event more it would not verify any more'
  }

  async #write(run: Run, caller: Caller, event: NewAuditEvent): Promise<void> {
    if (this.#keepsChain) {
      const problem = await this.#keyProblem(run)
      if (problem !== null) throw new OperatorError(problem)
    }
    const facts = factsOf(caller, event)
    await (this.#key === null ? writeUnchained(run, facts) : writeChained(run, this.#key, facts))
  }
}

/** A part of a statement, with the values of its parameters. */
export interface StatementPart {
  readonly text: string
  readonly values: readonly unknown[]
}

type Facts = Pick<StoredEvent, 'actor' | 'action' | 'kind' | 'record_id' | 'record_name' | 'changes'>

function factsOf(caller: Caller, event: NewAuditEvent): Facts {
  return {
    actor: boundedText(caller.name, LONGEST_NAME),
    action: event.action,
    kind: event.kind,
    record_id: event.recordId === null ? null : boundedText(String(event.recordId), LONGEST_NAME),
    record_name: boundedText(event.recordName, LONGEST_NAME),
    changes: JSON.stringify(event.changes),
  }
}

async function writeUnchained(run: Run, facts: Facts): Promise<void> {
  await run(UNCHAINED, valuesOf(facts), 'audit unchained event')
}

async function writeChained(run: Run, key: string, facts: Facts): Promise<void> {
  let head = await takeHead(run)
  let previous = head.hash
  if (head.first_id === '0') {
    // Waits for those who write without a key, and lets no more of them in: the chain begins over what they wrote.
    await run('lock table audit_event in share row exclusive mode', [])
    previous = await beginningOfChain(run)
    head = await takeHead(run)
  }
  const id = Number(head.id)
  const event = { ...facts, v: EVENT_VERSION, id, at: head.at, prev_hash: previous }
  const hash = eventHash(key, event)
  const firstId = head.first_id === '0' ? id : Number(head.first_id)
  const mac = headMac(key, { firstId, lastId: id, hash })
  const written = [id, EVENT_VERSION, head.at, ...valuesOf(facts), previous, hash]
  await run(CHAINED, [...written, firstId, id, hash, mac], 'audit chained event')
}

/** As text what the ORM's connections read as text. */
interface TakenHead {
  readonly first_id: string
  readonly hash: string
  /** Of the event that is to be written: above those of all events of the chain. */
  readonly id: string
  readonly at: string
}

async function takeHead(run: Run): Promise<TakenHead> {
  const [head] = await run<TakenHead>(TAKE_HEAD, [], 'audit head')
  if (head === undefined) throw new Error('The head of the audit chain was not answered')
  return head
}

function valuesOf({ actor, action, kind, record_id, record_name, changes }: Facts): readonly unknown[] {
  return [actor, action, kind, record_id, record_name, changes]
}

const TAKE_HEAD = 'select first_id::text as first_id, hash, id::text as id, at from take_audit_head()'

const UNCHAINED = `insert into audit_event (actor, action, kind, record_id, record_name, changes)
  values ($1, $2, $3, $4, $5, $6::json)`

const CHAINED = `with written as (
  insert into audit_event (id, v, at, actor, action, kind, record_id, record_name, changes, prev_hash, hash)
  values ($1::bigint, $2::int, $3::timestamptz, $4, $5, $6, $7, $8, $9::json, $10, $11))
  update audit_head set first_id = $12::bigint, last_id = $13::bigint, hash = $14, mac = $15`
