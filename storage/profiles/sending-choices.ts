import { query, type Queryable } from '../postgres/pool.ts'

/** By what and for whom something can be sent to a partner. Names, sorted. */
export interface SendingChoices {
  readonly partner: string
  /** Every instance of the sender's type. */
  readonly senders: readonly string[]
  /** Those of them to which routes to the partner lead. */
  readonly routedSenders: readonly string[]
  /** Those that have an AS2 profile: no other can send. */
  readonly organizations: readonly string[]
  /** Those of them that routes to the partner name as where messages come from, by the sender that they lead to. */
  readonly routedOrganizations: Readonly<Record<string, readonly string[]>>
}

/** Null for a partner without an AS2 profile. */
export async function sendingChoices(
  on: Queryable,
  partnerId: number,
  senderType: string,
): Promise<SendingChoices | null> {
  const [row] = await query<SendingChoices>(on, SENDING_CHOICES, [partnerId, senderType], 'sending-choices')
  return row ?? null
}

/** Whether an organization of this name exists, and whether it has an AS2 profile. */
export async function organizationFacts(
  on: Queryable,
  name: string,
): Promise<{ readonly hasProfile: boolean } | null> {
  const [row] = await query<{ hasProfile: boolean }>(
    on,
    `select exists (select from as2_local_profile where local_organization_id = o.id) as "hasProfile"
     from organization o where o.name = $1`,
    [name],
    'organization-facts',
  )
  return row ?? null
}

/** A route from any party names none. */
const SENDING_CHOICES = `
with partner_of as (
  select p.name from as2_remote_profile r join partner p on p.id = r.business_partner_id
  where r.business_partner_id = $1
), sender as (
  select name from plugin_configuration where type = $2
), able as (
  select o.name from organization o join as2_local_profile l on l.local_organization_id = o.id
), routed as (
  select distinct s.name as sender, o.name as organization
  from partner_of p
  join route r on r."to" in (p.name, '*')
  join sender s on s.name = r.target_plugin
  left join able o on o.name = r."from"
)
select p.name as partner,
  array(select name from sender order by name) as senders,
  array(select distinct sender from routed order by sender) as "routedSenders",
  array(select name from able order by name) as organizations,
  (select coalesce(json_object_agg(sender, names), '{}') from (
    select sender, json_agg(organization order by organization) as names from routed
    where organization is not null group by sender) by_sender) as "routedOrganizations"
from partner_of p`
