import type { MikroORM } from '@mikro-orm/postgresql'
import type { Clock } from '../../runtime/clock.ts'
import type { PluginType } from '../../runtime/module.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { Certificates } from '../certificates/certificates.ts'
import { CertificateImports } from '../certificates/imports.ts'
import { Parties } from '../parties/parties.ts'
import { PluginConfigurations } from '../plugins/plugin-configurations.ts'
import { PluginTypes } from '../plugins/rules.ts'
import { localProfiles, type LocalProfiles } from '../profiles/local-profiles.ts'
import { remoteProfiles, type RemoteProfiles } from '../profiles/remote-profiles.ts'
import { Routes } from '../routes/routes.ts'
import type { SecretBox } from '../secrets/secret-box.ts'
import { SavedSettings } from '../settings/saved-settings.ts'

/** The repositories of all ordinary records. */
export interface Records {
  readonly organizations: Parties
  readonly partners: Parties
  readonly routes: Routes
  readonly certificates: Certificates
  readonly certificateImports: CertificateImports
  readonly localProfiles: LocalProfiles
  readonly remoteProfiles: RemoteProfiles
  readonly plugins: PluginConfigurations
  readonly pluginTypes: PluginTypes
  readonly settings: SavedSettings
}

export interface RecordsOptions {
  /** Knows all of ENTITIES. */
  readonly orm: MikroORM
  readonly box: SecretBox
  readonly clock: Clock
  /** Of all installed modules. */
  readonly pluginTypes: readonly PluginType[]
  readonly audit: AuditLog
}

export function openRecords({ orm, box, clock, pluginTypes, audit }: RecordsOptions): Records {
  const types = new PluginTypes(pluginTypes)
  return {
    organizations: Parties.organizations({ orm, audit }),
    partners: Parties.partners({ orm, audit }),
    routes: new Routes({ orm, audit }),
    certificates: new Certificates({ orm, box, clock, audit }),
    certificateImports: new CertificateImports({ orm, box, audit }),
    localProfiles: localProfiles({ orm, audit }),
    remoteProfiles: remoteProfiles({ orm, box, audit }),
    plugins: new PluginConfigurations({ orm, box, types, audit }),
    pluginTypes: types,
    settings: new SavedSettings({ orm, audit }),
  }
}
