import { LOCAL_CERTIFICATE_FIELDS } from '../profiles/local-profile.ts'
import { REMOTE_CERTIFICATE_FIELDS } from '../profiles/remote-profile.ts'

/** Who refers to a certificate. */

interface ProfileTable {
  readonly kind: string
  readonly table: string
  readonly party: string
  /** The column that is the party's id and the profile's own. */
  readonly link: string
  readonly path: string
  readonly columns: readonly string[]
}

/** The profiles of one kind that refer to a certificate, with the properties in which they do. */
function profilesOf(profile: ProfileTable): string {
  const { kind, table, party, link, path, columns } = profile
  const fields = columns.map((column) => `case when r.${column} = w.id then '${column}' end`)
  return `
    select '${kind}'::text as kind, p.name, array_remove(array[${fields.join(', ')}], null) as fields,
      '${path}' || r.${link} as link
    from wanted w join ${table} r on w.id in (${columns.map((column) => `r.${column}`).join(', ')})
    join ${party} p on p.id = r.${link}`
}

/** The profiles and plugin instances that refer to a certificate, as `refuseWhileUsed` takes them. Takes its id once. */
export const USERS_OF_CERTIFICATE = `
  with wanted as (select ?::int as id)
  ${profilesOf({
    kind: 'as2-local-profile',
    table: 'as2_local_profile',
    party: 'organization',
    link: 'local_organization_id',
    path: '/as2/local-profiles/',
    columns: LOCAL_CERTIFICATE_FIELDS,
  })}
  union all
  ${profilesOf({
    kind: 'as2-remote-profile',
    table: 'as2_remote_profile',
    party: 'partner',
    link: 'business_partner_id',
    path: '/as2/remote-profiles/',
    columns: REMOTE_CERTIFICATE_FIELDS,
  })}
  union all
  select 'plugin-configuration', c.name, array_agg(setting.key order by setting.key), '/plugins/configs/' || c.type || '/' || c.name
  from wanted w, plugin_configuration c, jsonb_each(c.settings) as setting
  where setting.key like '%certificate\\_id' and setting.value = to_jsonb(w.id)
    or setting.key like '%certificate\\_ids' and setting.value @> to_jsonb(w.id)
  group by c.type, c.name`
