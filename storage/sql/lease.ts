import { execute, query, type Queryable } from '../postgres/pool.ts'

/** A lease as its owner names it. */
export interface HeldLease {
  readonly name: string
  readonly owner: string
  readonly fencing: number
}

export interface LeaseRequest {
  readonly name: string
  /** Who wants it. */
  readonly owner: string
  /** An owner whose name begins so is a predecessor that is gone: it is not waited for. */
  readonly ownerPrefix: string
  readonly seconds: number
}

/**
 * Takes a lease that nobody holds: it was given back, its time is over by the exchange's clock in the database, or its
 * owner is our predecessor. Answers the fencing number, or null while somebody else holds it.
 */
export async function acquireLease(on: Queryable, request: LeaseRequest): Promise<number | null> {
  const { name, owner, ownerPrefix, seconds } = request
  const [row] = await query<{ fencing: number }>(
    on,
    `insert into lease as l (name, owner, until) values ($1, $2, (select exchange_time()) + $4 * interval '1 second')
     on conflict (name) do update
       set owner = excluded.owner, fencing = l.fencing + 1, until = (select exchange_time()) + $4 * interval '1 second'
       where l.until < (select exchange_time()) or starts_with(l.owner, $3)
     returning fencing`,
    [name, owner, ownerPrefix, seconds],
    'acquire_lease',
  )
  return row?.fencing ?? null
}

/** Makes a lease longer, also one whose time is over if nobody has taken it since. False: somebody has. */
export async function renewLease(on: Queryable, held: HeldLease, seconds: number): Promise<boolean> {
  const renewed = await execute(
    on,
    `update lease set until = (select exchange_time()) + $4 * interval '1 second'
     where name = $1 and owner = $2 and fencing = $3`,
    [held.name, held.owner, held.fencing, seconds],
    'renew_lease',
  )
  return renewed > 0
}

/** Gives a lease back: the next may take it at once. */
export async function releaseLease(on: Queryable, held: HeldLease): Promise<void> {
  await execute(
    on,
    `update lease set until = '-infinity' where name = $1 and owner = $2 and fencing = $3`,
    [held.name, held.owner, held.fencing],
    'release_lease',
  )
}

/**
 * Whether the lease is held now. Within a transaction it then stays held until that ends: who would take it waits, so
 * that nothing is committed under a lease that another has taken meanwhile. It does not wait long: the server ends a
 * transaction whose node stands still.
 */
export async function lockLease(on: Queryable, held: HeldLease): Promise<boolean> {
  const rows = await query<object>(
    on,
    `select set_config('idle_in_transaction_session_timeout', '5s', true) from lease
     where name = $1 and owner = $2 and fencing = $3 and until > (select exchange_time()) for share`,
    [held.name, held.owner, held.fencing],
    'lock_lease',
  )
  return rows.length > 0
}
