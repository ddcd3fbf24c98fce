import type { EntityManager } from '@mikro-orm/postgresql'
import type { PoolClient } from 'pg'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import type { AuditLog, StatementPart } from '../audit/audit-log.ts'
import { changesBetween, type FieldChange } from '../audit/changes.ts'
import type { AuditAction, AuditKind } from '../audit/kinds.ts'

/** A change of records while it is made. */
export interface RecordChange {
  /** Holds the transaction. */
  readonly em: EntityManager
  /** Who makes it. */
  readonly caller: Caller
}

/** A record as an event names it. */
export interface EventSubject {
  /** Null for the one record that has none. */
  readonly id: number | string | null
  /** At this moment. */
  readonly name: string
}

/** The event of a record that is being made without the ORM. */
export interface CreationEvent {
  /** As a part of the statement that makes the record, with its parameters from `$first` on; null: use `record`. */
  readonly alongside: (first: number) => StatementPart | null
  /** In the transaction that `client` holds, once the record is there. */
  readonly record: (client: PoolClient, id: number) => Promise<void>
}

/** By property, without what the program keeps of its own accord, such as when a record was saved. */
type Values = Readonly<Record<string, unknown>>

export interface RecordEventsOptions {
  readonly audit: AuditLog
  readonly kind: AuditKind
  /** Properties whose values the log never shows. */
  readonly secret?: readonly string[]
}

/**
 * The audit events of the records of one kind, each written in the transaction that changes the record. Writing one is
 * the last thing that such a transaction does: from then on until it ends it holds the place in the log that others
 * wait for, and must wait for nobody itself.
 */
export class RecordEvents {
  readonly #audit: AuditLog
  readonly #kind: AuditKind
  readonly #secret: readonly string[]

  constructor({ audit, kind, secret = [] }: RecordEventsOptions) {
    this.#audit = audit
    this.#kind = kind
    this.#secret = secret
  }

  /** Field by field. Nothing that differs is nothing to store and no event. */
  changes(before: Values | null, next: Values | null): readonly FieldChange[] {
    return changesBetween(before, next, { secret: this.#secret })
  }

  async created(change: RecordChange, subject: EventSubject, values: Values): Promise<void> {
    await this.record(change, 'created', subject, this.changes(null, values))
  }

  /** The same for a record that one statement makes (record-table.ts). */
  creation(caller: Caller, name: string, values: Values): CreationEvent {
    const changes = this.changes(null, values)
    const subject = (id: EventSubject['id']) => this.#event('created', { id, name }, changes)
    return {
      alongside: (first) => this.#audit.alongside(caller, subject(null), first),
      record: (client, id) => this.#audit.recordOn(client, caller, subject(id)),
    }
  }

  async updated(change: RecordChange, subject: EventSubject, changes: readonly FieldChange[]): Promise<void> {
    if (changes.length > 0) await this.record(change, 'updated', subject, changes)
  }

  async deleted(change: RecordChange, subject: EventSubject, values: Values): Promise<void> {
    await this.record(change, 'deleted', subject, this.changes(values, null))
  }

  async record(
    { em, caller }: RecordChange,
    action: AuditAction,
    subject: EventSubject,
    changes: readonly FieldChange[],
  ): Promise<void> {
    await this.#audit.record(em, caller, this.#event(action, subject, changes))
  }

  #event(action: AuditAction, { id, name }: EventSubject, changes: readonly FieldChange[]) {
    return { action, kind: this.#kind, recordId: id, recordName: name, changes }
  }
}
