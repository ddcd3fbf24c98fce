import type { MikroORM } from '@mikro-orm/postgresql'
import type { Clock } from '../../runtime/clock.ts'
import type { PluginType } from '../../runtime/module.ts'
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
}

export function openRecords({ orm, box, clock, pluginTypes }: RecordsOptions): Records {
  const types = new PluginTypes(pluginTypes)
  return {
    organizations: Parties.organizations(orm),
    partners: Parties.partners(orm),
    routes: new Routes(orm),
    certificates: new Certificates({ orm, box, clock }),
    certificateImports: new CertificateImports({ orm, box }),
    localProfiles: localProfiles(orm),
    remoteProfiles: remoteProfiles(orm, box),
    plugins: new PluginConfigurations({ orm, box, types }),
    pluginTypes: types,
    settings: new SavedSettings(orm),
  }
}
