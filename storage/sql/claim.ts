import { execute, query, type Queryable } from '../postgres/pool.ts'
import type { StoredStage } from '../exchange/stages.ts'
import type { Direction } from '../exchange/states.ts'

export interface ClaimRequest {
  readonly target: string
  /** At most so many deliveries. */
  readonly limit: number
  readonly owner: string
  readonly leaseSeconds: number
}

/** A delivery that is ours until its lease ends, with what is needed to carry it out. */
export interface ClaimedDelivery {
  readonly id: number
  readonly fencing: number
  /** 1 for the first. */
  readonly attempts: number
  readonly message_id: string
  readonly direction: Direction
  readonly from_party: string
  readonly to_party: string
  readonly file_name: string
  readonly content_type: string
  readonly size_bytes: number
  readonly payloads: Readonly<Record<string, StoredStage>>
  readonly protocols: Readonly<Record<string, unknown>>
  readonly message_created_at: Date
  /** The stage `unpacked` while it is still in the journal: it saves a look-up for every small message. */
  readonly unpacked: Buffer | null
}

/**
 * Claims waiting deliveries of one target: retries that are due, then the oldest queued ones. Rows that somebody else
 * is claiming are skipped, not waited for.
 */
export function claim(on: Queryable, request: ClaimRequest): Promise<ClaimedDelivery[]> {
  const { target, limit, owner, leaseSeconds } = request
  return query<ClaimedDelivery>(on, CLAIM, [target, limit, owner, leaseSeconds], 'claim')
}

const CLAIM = 'select * from claim_deliveries($1, $2, $3, $4)'

/** Makes the leases of an owner's work longer. Answers how many it still holds. */
export function renewLeases(
  on: Queryable,
  owner: { readonly target: string; readonly owner: string; readonly leaseSeconds: number },
): Promise<number> {
  return execute(
    on,
    `update delivery set lease_until = (select exchange_time()) + make_interval(secs => $3)
     where target = $1 and state = 'delivering' and lease_owner = $2`,
    [owner.target, owner.owner, owner.leaseSeconds],
  )
}

/**
 * Puts back the claims of owners that are gone for certain: those whose names begin with `ownerPrefix`. Where the names
 * go on with `run`, an instance of the present run of the process broke down alone. Answers how many.
 */
export async function takeBack(
  on: Queryable,
  ownerPrefix: string,
  run: string | null = null,
): Promise<number> {
  const text = 'select deliveries from take_back_deliveries($1, $2)'
  const rows = await query<{ deliveries: number }>(on, text, [ownerPrefix, run])
  return rows.reduce((sum, { deliveries }) => sum + deliveries, 0)
}

/** Which of these deliveries may still be worked on. */
export async function openDeliveries(on: Queryable, ids: readonly number[]): Promise<Set<number>> {
  const rows = await query<{ id: number }>(
    on,
    `select id from delivery where id = any ($1) and state not in ('delivered', 'failed', 'stalled')`,
    [ids],
  )
  return new Set(rows.map(({ id }) => id))
}
