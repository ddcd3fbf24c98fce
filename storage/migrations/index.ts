import type { Migration } from '@mikro-orm/migrations'
import type { Constructor } from '@mikro-orm/postgresql'
import { Foundation } from './001-foundation.ts'
import { DeliveryFunctions } from './002-delivery-functions.ts'
import { CertificateImports } from './003-certificate-imports.ts'
import { MessageRequests } from './004-message-requests.ts'
import { Stats } from './005-stats.ts'
import { Identity } from './006-identity.ts'
import { Audit } from './007-audit.ts'
import { DeliveryEngine } from './008-delivery-engine.ts'
import { Events } from './009-events.ts'
import { Leases } from './010-leases.ts'
import { PayloadStorage } from './011-payload-storage.ts'
import { Receipts } from './012-receipts.ts'
import { PartnerSwitches } from './013-partner-switches.ts'
import { Alerts } from './014-alerts.ts'

/** Every migration, in order. The name is what the database remembers: it never changes once it is released. */
export const MIGRATIONS: readonly { readonly name: string; readonly migration: Constructor<Migration> }[] = [
  { name: '001-foundation', migration: Foundation },
  { name: '002-delivery-functions', migration: DeliveryFunctions },
  { name: '003-certificate-imports', migration: CertificateImports },
  { name: '004-message-requests', migration: MessageRequests },
  { name: '005-stats', migration: Stats },
  { name: '006-identity', migration: Identity },
  { name: '007-audit', migration: Audit },
  { name: '008-delivery-engine', migration: DeliveryEngine },
  { name: '009-events', migration: Events },
  { name: '010-leases', migration: Leases },
  { name: '011-payload-storage', migration: PayloadStorage },
  { name: '012-receipts', migration: Receipts },
  { name: '013-partner-switches', migration: PartnerSwitches },
  { name: '014-alerts', migration: Alerts },
]
