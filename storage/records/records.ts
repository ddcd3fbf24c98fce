import type { MikroORM } from '@mikro-orm/postgresql'
import type { Clock } from '../../runtime/clock.ts'
import type { PluginType } from '../../runtime/module.ts'
import { Certificates } from '../certificates/certificates.ts'
import { Parties } from '../parties/parties.ts'
import { PluginConfigurations } from '../plugins/plugin-configurations.ts'
import { PluginTypes } from '../plugins/rules.ts'
import { LocalProfiles } from '../profiles/local-profiles.ts'
import { RemoteProfiles } from '../profiles/remote-profiles.ts'
import { Routes } from '../routes/routes.ts'
import type { SecretBox } from '../secrets/secret-box.ts'

/** The repositories of all ordinary records. */
export interface Records {
  readonly organizations: Parties
  readonly partners: Parties
  readonly routes: Routes
  readonly certificates: Certificates
  readonly localProfiles: LocalProfiles
  readonly remoteProfiles: RemoteProfiles
  readonly plugins: PluginConfigurations
  readonly pluginTypes: PluginTypes
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
    localProfiles: new LocalProfiles(orm),
    remoteProfiles: new RemoteProfiles({ orm, box }),
    plugins: new PluginConfigurations({ orm, box, types }),
    pluginTypes: types,
  }
}
