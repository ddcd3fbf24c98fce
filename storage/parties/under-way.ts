import type { EntityManager } from '@mikro-orm/postgresql'
import { WaybillError } from '../../runtime/errors.ts'
import type { RecordUser } from '../records/record-users.ts'

/** A party as messages name it. */
interface NamedParty {
  readonly kind: 'organization' | 'partner'
  readonly name: string
}

/** `details.users` lists at most so many messages; `details.total` counts all. */
const MESSAGES_LISTED = 25

interface Held {
  readonly id: string
  readonly field: 'from' | 'to'
  /** Of all: that are on their way, whose receipt is owed, and either. */
  readonly moving: number
  readonly owed: number
  readonly total: number
}

/**
 * Throws while messages of a party are on their way, or receipts are owed for them: what is to be done for them finds the
 * party by its name, and would find nobody, or somebody else. Call it in the transaction that locked the record.
 */
export async function refuseWhileUnderWay(em: EntityManager, { kind, name }: NamedParty): Promise<void> {
  const held = await em.execute<Held[]>(HELD[kind], [name])
  const [first] = held
  if (first === undefined) return
  const { moving, owed, total } = first
  const messages = moving === 1 ? '1 message' : `${moving} messages`
  const receipts = owed === 1 ? '1 receipt is' : `${owed} receipts are`
  const reasons = [
    moving === 0 ? null : `${messages} of this ${kind} ${moving === 1 ? 'is on its' : 'are on their'} way`,
    owed === 0 ? null : `${receipts} owed ${kind === 'partner' ? 'to' : 'by'} this ${kind}`,
  ]
  const why = reasons.filter((reason) => reason !== null).join(', and ')
  const noun = kind === 'partner' ? 'Partner' : 'Organization'
  const users = held.map(({ id, field }): RecordUser => {
    return { kind: 'message', name: id, fields: [field], link: `/messages/${id}` }
  })
  throw new WaybillError('CONFLICT', `${noun} ${name} cannot be renamed: ${why}`, { users, total })
}

const UNDER_WAY = `('Received', 'InProgress', 'Retrying', 'AwaitingReceipt')`

/**
 * Takes the name once. The counts of messages (migration 004) say in which spans of time there are some in these states,
 * so only those are read: what has settled may be millions.
 */
function heldBy(party: string): string {
  return `
with wanted as (select ?::text as name),
counted as (
  select c.starts from wanted w join message_count c on c.from_party = '=' || w.name and c.to_party = '*'
  where c.status in ${UNDER_WAY} and c.n > 0
  union
  select c.starts from wanted w join message_count c on c.from_party = '*' and c.to_party = '=' || w.name
  where c.status in ${UNDER_WAY} and c.n > 0
  union
  select (select max(s.starts) from message_span s where s.starts <= u.created_at)
  from wanted w join message_change u on w.name in (u.from_party, u.to_party)
  where u.status in ${UNDER_WAY} and u.n > 0
),
span as (
  select c.starts, coalesce((select min(s.starts) from message_span s where s.starts > c.starts), 'infinity') as ends
  from counted c
),
found as (
  select m.id, true as moving, false as owed
  from wanted w cross join span s join message m on m.created_at >= s.starts and m.created_at < s.ends
  where m.status in ${UNDER_WAY} and ${party} = w.name
  union all
  select m.id, false, true
  from wanted w cross join receipt_dispatch r join message m on m.id = r.message_id
  where ${party} = w.name
),
held as (select id, bool_or(moving) as moving, bool_or(owed) as owed from found group by id)
select h.id, case when m.from_party = w.name then 'from' else 'to' end as field,
  (count(*) filter (where h.moving) over ())::int as moving, (count(*) filter (where h.owed) over ())::int as owed,
  (count(*) over ())::int as total
from wanted w cross join held h join message m on m.id = h.id
order by h.id limit ${MESSAGES_LISTED}`
}

/** A name may be that of an organization and of a partner: which one a message means, its direction says. */
const HELD = {
  organization: heldBy(`case m.direction when 'outbound' then m.from_party else m.to_party end`),
  partner: heldBy(`case m.direction when 'outbound' then m.to_party else m.from_party end`),
} as const
