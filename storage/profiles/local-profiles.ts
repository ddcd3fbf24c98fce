import { OrganizationEntity } from '../parties/party.ts'
import { LocalProfileEntity, type LocalProfile, type LocalProfileValues } from './local-profile.ts'
import { Profiles, type ProfilesOptions } from './profiles.ts'

/** The AS2 profiles of organizations. */
export type LocalProfiles = Profiles<LocalProfile, LocalProfileValues>

export function localProfiles(options: ProfilesOptions): LocalProfiles {
  return new Profiles(options, {
    entity: LocalProfileEntity,
    table: 'as2_local_profile',
    auditKind: 'as2-local-profile',
    secrets: [],
    link: 'local_organization_id',
    party: { entity: OrganizationEntity, noun: 'organization' },
    certificates: () => LOCAL_CERTIFICATE_USES,
    seal: (values) => values,
    open: valuesOf,
    refusalsOfChange: () => ({}),
  })
}

const LOCAL_CERTIFICATE_USES = {
  signing_certificate_id: 'sign',
  decryption_certificate_id: 'decrypt',
  previous_decryption_certificate_id: 'decrypt',
} as const

function valuesOf(profile: LocalProfile): LocalProfileValues {
  return {
    local_organization_id: profile.local_organization_id,
    as2id: profile.as2id,
    signing_certificate_id: profile.signing_certificate_id ?? null,
    decryption_certificate_id: profile.decryption_certificate_id ?? null,
    previous_decryption_certificate_id: profile.previous_decryption_certificate_id ?? null,
  }
}
