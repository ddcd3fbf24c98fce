import type { Clock } from '../../runtime/clock.ts'
import type { Endpoint } from '../../runtime/endpoint/endpoint.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import type { AuditLog } from '../../storage/audit/audit-log.ts'
import type { IdentityRecords } from '../../storage/identity/identity.ts'
import type { PluginFailures } from '../../storage/alerts/plugin-failures.ts'
import type { IntakeGate } from '../../storage/exchange/intake-gate.ts'
import type { InstanceList } from '../../storage/plugins/instance-list.ts'
import type { Records } from '../../storage/records/records.ts'
import { apiTokenEndpoints } from './api-tokens.ts'
import { auditEndpoints } from './audit.ts'
import { certificateEndpoints, type CertificateServices } from './certificates/endpoints.ts'
import { eventsEndpoint, type EventServices } from './events.ts'
import { healthEndpoint } from './health.ts'
import { messageEndpoints } from './messages.ts'
import type { MessageServices } from './messages-lookup.ts'
import { notificationEndpoints } from './notifications.ts'
import { oidcProviderEndpoints } from './oidc-providers.ts'
import { organizationEndpoints, partnerEndpoints } from './parties.ts'
import { pluginEndpoints } from './plugins.ts'
import { routeEndpoints } from './routes.ts'
import { serviceAccountEndpoints } from './service-accounts.ts'
import { serviceInstanceEndpoints } from './service-instances.ts'
import { settingsEndpoints, type SettingsServices } from './settings.ts'
import { statsEndpoint } from './stats.ts'

/** What the endpoints of the core may call. */
export interface CoreServices
  extends Records, IdentityRecords, CertificateServices, MessageServices, EventServices, SettingsServices {
  readonly supervisor: Supervisor
  readonly audit: AuditLog
  readonly clock: Clock
  readonly intake: IntakeGate
  readonly instances: InstanceList
  readonly pluginFailures: PluginFailures
  /** This node's name. */
  readonly node: string
  readonly startedAt: Date
  /** What links to this server begin with; known when it listens. */
  readonly publicUrl: () => string
}

/** The endpoints that do not depend on the installed modules; buildServer adds `/openapi.yaml`. */
export function coreEndpoints(services: CoreServices): readonly Endpoint[] {
  return [
    healthEndpoint(services),
    ...organizationEndpoints(services),
    ...partnerEndpoints(services),
    ...routeEndpoints(services),
    ...certificateEndpoints(services),
    ...pluginEndpoints(services),
    ...serviceInstanceEndpoints(services),
    ...oidcProviderEndpoints(services),
    ...serviceAccountEndpoints(services),
    ...apiTokenEndpoints(services),
    ...settingsEndpoints(services),
    ...notificationEndpoints(services),
    ...auditEndpoints(services),
    statsEndpoint(services),
    ...messageEndpoints(services),
    eventsEndpoint(services),
  ]
}
