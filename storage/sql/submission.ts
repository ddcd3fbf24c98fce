import { query, type Queryable } from '../postgres/pool.ts'
import type { Direction } from '../exchange/states.ts'
import type { PluginRole } from '../../runtime/module.ts'
import { directions, type PartyPair } from './direction.ts'

/** What the records say of a message that is to be sent by hand. */
export interface Placement {
  readonly direction: Direction | null
  /** Whether there is an organization or a partner of that name. */
  readonly from_known: boolean
  readonly to_known: boolean
  /** Of the target that was asked for; null when there is no such instance, or none was asked for. */
  readonly target_role: PluginRole | null
  /** The targets that routes between the two name, of any source, by name. */
  readonly routed: readonly string[]
}

export async function placeSubmission(
  on: Queryable,
  { from, to, target }: PartyPair & { readonly target: string | null },
): Promise<Placement> {
  const [direction = null] = await directions(on, [{ from, to }])
  const [found] = await query<Omit<Placement, 'direction'>>(
    on,
    `select
       exists (select from organization where name = $1) or exists (select from partner where name = $1) as from_known,
       exists (select from organization where name = $2) or exists (select from partner where name = $2) as to_known,
       (select role from plugin_configuration where name = $3) as target_role,
       array(select distinct target_plugin from route where "from" in ($1, '*') and "to" in ($2, '*')
         order by target_plugin) as routed`,
    [from, to, target],
  )
  if (found === undefined) throw new Error('A statement without a table has answered no row')
  return { direction, ...found }
}

/** A message that was sent by hand, as a repeat of the request finds it. */
export interface Submitted extends PartyPair {
  readonly id: string
  /** Of its file, lower case hexadecimal. */
  readonly sha256: string
  readonly targets: readonly string[]
}

export async function findSubmission(on: Queryable, duplicateKey: Buffer): Promise<Submitted | null> {
  const [found] = await query<Submitted>(
    on,
    `select id, from_party as "from", to_party as "to", payloads -> 'unpacked' ->> 'sha256' as sha256,
       array(select target from delivery where message_id = m.id) as targets
     from message m where duplicate_key = $1`,
    [duplicateKey],
  )
  return found ?? null
}
