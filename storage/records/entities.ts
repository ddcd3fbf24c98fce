import { CertificateEntity } from '../certificates/certificate.ts'
import { ApiTokenEntity } from '../identity/api-token.ts'
import { OidcProviderEntity } from '../identity/provider.ts'
import { ServiceAccountEntity } from '../identity/service-account.ts'
import { UserEntity } from '../identity/user.ts'
import { OrganizationEntity, PartnerEntity } from '../parties/party.ts'
import { PluginConfigurationEntity } from '../plugins/plugin-configuration.ts'
import type { Entities } from '../postgres/database.ts'
import { LocalProfileEntity } from '../profiles/local-profile.ts'
import { RemoteProfileEntity } from '../profiles/remote-profile.ts'
import { RouteEntity } from '../routes/route.ts'
import { SettingsEntity } from '../settings/settings.ts'

/** Every entity that openDatabase must know. */
export const ENTITIES: Entities = [
  OrganizationEntity,
  PartnerEntity,
  RouteEntity,
  CertificateEntity,
  LocalProfileEntity,
  RemoteProfileEntity,
  PluginConfigurationEntity,
  SettingsEntity,
  OidcProviderEntity,
  ServiceAccountEntity,
  ApiTokenEntity,
  UserEntity,
]
