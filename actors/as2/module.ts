import { siblingFile, type Module } from '../../runtime/module.ts'
import type { As2Facts } from './facts.ts'
import { connectionEndpoints, type ConnectionServices } from './connection-check/endpoints.ts'
import { profileEndpoints, type ProfileServices } from './profiles/endpoints.ts'
import { as2ReceiverSettings, as2SenderSettings } from './settings.ts'

/** What the endpoints of the module may call. */
export type As2Services = ProfileServices & ConnectionServices

type As2View = Readonly<Record<keyof As2Facts, unknown>>

/** The module `as2`: exchanges messages with partners over AS2 (RFC 4130). */
export const as2Module: Module<As2Services> = {
  name: 'as2',
  pluginTypes: [
    {
      type: 'as2-receiver',
      role: 'source',
      title: 'AS2 receiver',
      settings: as2ReceiverSettings,
      secrets: [],
      actor: siblingFile(import.meta.url, './receiving/receiver'),
    },
    {
      type: 'as2-sender',
      role: 'target',
      title: 'AS2 sender',
      settings: as2SenderSettings,
      secrets: [],
      actor: siblingFile(import.meta.url, './sending/sender'),
    },
  ],
  endpoints: (services) => [...profileEndpoints(services), ...connectionEndpoints(services)],
  // What is stored is what is shown; see As2Facts.
  protocolView: (facts) => facts as As2View | null,
}
