/** What is done to what (specification, 2.15 and 6.3). */

export const AUDIT_ACTIONS = [
  'created',
  'updated',
  'deleted',
  'made',
  'revoked',
  'started',
  'stopped',
  'restarted',
  'verified',
] as const

export type AuditAction = (typeof AUDIT_ACTIONS)[number]

/** Where the records of a kind are, so that a reader is told whether one is gone. */
type RecordPlace =
  /** The id is a whole number, in this column. */
  | { readonly id: 'number'; readonly table: string; readonly column: string }
  /** The id is `<type>:<name>` of a plugin instance. */
  | { readonly id: 'instance' }
  /** There is one record, which has no id and is never gone; or the kind has none at all. */
  | { readonly id: 'none' }

const inTable = (table: string, column = 'id') => ({ id: 'number', table, column }) as const

/** Every kind: the resource's name in the singular, with hyphens. */
export const AUDIT_KIND_PLACES = {
  organization: inTable('organization'),
  partner: inTable('partner'),
  route: inTable('route'),
  certificate: inTable('certificate'),
  'as2-local-profile': inTable('as2_local_profile', 'local_organization_id'),
  'as2-remote-profile': inTable('as2_remote_profile', 'business_partner_id'),
  'plugin-configuration': { id: 'instance' },
  'service-instance': { id: 'instance' },
  settings: { id: 'none' },
  'oidc-provider': inTable('oidc_provider'),
  'service-account': inTable('service_account'),
  'api-token': inTable('api_token'),
  user: inTable('user_account'),
  /** The key that secrets are sealed with at rest: `updated` by `waybill secret rotate`. */
  'secret-key': { id: 'none' },
  /** This log: `verified`. */
  'audit-log': { id: 'none' },
} as const satisfies Record<string, RecordPlace>

export type AuditKind = keyof typeof AUDIT_KIND_PLACES

export const AUDIT_KINDS = Object.keys(AUDIT_KIND_PLACES) as [AuditKind, ...AuditKind[]]

/** The id of a plugin instance as events of `plugin-configuration` and `service-instance` carry it. */
export function instanceId(type: string, name: string): string {
  return `${type}:${name}`
}
