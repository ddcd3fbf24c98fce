import { siblingFile, type Module } from '../../runtime/module.ts'
import type { As2Facts } from './facts.ts'
import { profileEndpoints, type ProfileServices } from './profiles.ts'
import { as2ReceiverSettings, as2SenderSettings } from './settings.ts'

type As2View = Readonly<Record<keyof As2Facts, unknown>>

/** The module `as2`: exchanges messages with partners over AS2 (RFC 4130). */
export const as2Module: Module<ProfileServices> = {
  name: 'as2',
  pluginTypes: [
    {
      type: 'as2-receiver',
      role: 'source',
      title: 'AS2 receiver',
      settings: as2ReceiverSettings,
      secrets: [],
      actor: siblingFile(import.meta.url, './receiver'),
    },
    {
      type: 'as2-sender',
      role: 'target',
      title: 'AS2 sender',
      settings: as2SenderSettings,
      secrets: [],
      actor: siblingFile(import.meta.url, './sender'),
    },
  ],
  endpoints: profileEndpoints,
  // What is stored is what is shown; see As2Facts.
  protocolView: (facts) => facts as As2View | null,
}
