import type { Clock } from '../../runtime/clock.ts'
import type { Endpoint } from '../../runtime/endpoint/endpoint.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import type { Records } from '../../storage/records/records.ts'
import { certificateEndpoints } from './certificates.ts'
import { healthEndpoint } from './health.ts'
import { messageEndpoints, type MessageServices } from './messages.ts'
import { organizationEndpoints, partnerEndpoints } from './parties.ts'
import { pluginEndpoints } from './plugins.ts'
import { routeEndpoints } from './routes.ts'
import { serviceInstanceEndpoints } from './service-instances.ts'

/** What the endpoints of the core may call. */
export interface CoreServices extends Records, MessageServices {
  readonly supervisor: Supervisor
  readonly clock: Clock
  /** This node's name. */
  readonly node: string
  readonly startedAt: Date
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
    ...messageEndpoints(services),
  ]
}
