import type { EntitySchema } from '@mikro-orm/core'
import type { MikroORM } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { Page, PageRequest } from '../../runtime/endpoint/paging.ts'
import { query, transaction } from '../postgres/pool.ts'
import type { CreationEvent } from './record-events.ts'

export interface PageOfRecords extends PageRequest {
  /** With `$1`, `$2`, … for the values; left out: all records. */
  readonly where?: { readonly condition: string; readonly values: readonly unknown[] }
  /** Such as `name` or `id desc`. */
  readonly orderBy: string
}

/**
 * The records of one table in one prepared statement each: reading one by its id, reading a page, storing a new one.
 * The columns are those of the entity. Through the ORM's query builder and unit of work the same takes 2.5 times the
 * CPU (`npm run bench -- api-throughput`); it stays for what needs a transaction of several statements.
 */
export class RecordTable<T extends object> {
  readonly #orm: MikroORM
  readonly #table: string
  readonly #columns: string
  readonly #primaryKey: string
  readonly #insert: string
  /** The columns of an insert in order, with what the entity sets them to. */
  readonly #inserted: readonly { readonly name: string; readonly atCreation: (() => unknown) | undefined }[]
  #pool: Promise<Pool> | undefined

  /** The properties of the entity have the names of their columns. */
  constructor(orm: MikroORM, entity: EntitySchema<T>) {
    const { tableName, primaryKeys, props } = orm.getMetadata().get(entity)
    this.#orm = orm
    this.#table = tableName
    this.#columns = props.map(({ name }) => quoted(name)).join(', ')
    this.#primaryKey = primaryKeys[0] ?? 'id'
    const inserted = props.filter(({ name }) => !primaryKeys.includes(name))
    this.#inserted = inserted.map(({ name, onCreate }) => ({
      name,
      atCreation: onCreate === undefined ? undefined : () => onCreate({} as T, orm.em) as unknown,
    }))
    const names = inserted.map(({ name }) => quoted(name)).join(', ')
    const places = inserted.map((_, at) => `$${at + 1}`).join(', ')
    this.#insert = `insert into ${this.#table} (${names}) values (${places}) returning ${this.#columns}`
  }

  async get(id: number): Promise<T | null> {
    const text = `select ${this.#columns} from ${this.#table} where ${quoted(this.#primaryKey)} = $1`
    const [record] = await query<T>(await this.#connections(), text, [id], `${this.#table} by id`)
    return record ?? null
  }

  /** One statement answers the page and, unless the page is empty, how many records there are on all of them. */
  async page({ where, orderBy, limit, offset }: PageOfRecords): Promise<Page<T>> {
    const values = where?.values ?? []
    const from = `from ${this.#table}${where === undefined ? '' : ` where ${where.condition}`}`
    const count = `select count(*)::int ${from}`
    const text = `select ${this.#columns}, (${count}) as "total" ${from}
      order by ${orderBy} limit $${values.length + 1} offset $${values.length + 2}`
    const pool = await this.#connections()
    const name = where === undefined ? `${this.#table} page by ${orderBy}` : undefined
    const rows = await query<T & { total: number }>(pool, text, [...values, limit, offset], name)
    const items = rows.map((row) => {
      const { total: _, ...record } = row
      return record as unknown as T
    })
    if (rows[0] !== undefined || offset === 0) return { items, total: rows[0]?.total ?? 0 }
    const [counted] = await query<{ count: number }>(pool, count, values)
    return { items, total: counted?.count ?? 0 }
  }

  /**
   * Stores a new record with its event and answers it as it is stored. The database gives the id, the entity what it
   * sets at a creation; any other property that is left out is null. Record and event are one statement where the
   * audit log lets them be: a transaction of several takes twice the CPU (`npm run bench -- api-throughput`).
   */
  async insert(values: Partial<T>, event: CreationEvent): Promise<T> {
    const given: Readonly<Record<string, unknown>> = values
    const inOrder = this.#inserted.map(({ name, atCreation }) => given[name] ?? atCreation?.() ?? null)
    const pool = await this.#connections()
    const alongside = event.alongside(inOrder.length + 1)
    if (alongside !== null) {
      const text = `with stored as (${this.#insert}), event as (${alongside.text}) select * from stored`
      return only(
        await query<T>(pool, text, [...inOrder, ...alongside.values], `${this.#table} insert, event`),
      )
    }
    return transaction(pool, async (client) => {
      const record = only(await query<T>(client, this.#insert, inOrder, `${this.#table} insert`))
      const id = new Map<string, unknown>(Object.entries(record)).get(this.#primaryKey)
      await event.record(client, Number(id))
      return record
    })
  }

  #connections(): Promise<Pool> {
    return (this.#pool ??= this.#orm.em.getConnection().getNativeClient())
  }
}

/** An insert answers its row. */
function only<T>(rows: readonly T[]): T {
  const [record] = rows
  if (record === undefined) throw new Error('An insert answered no row')
  return record
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
