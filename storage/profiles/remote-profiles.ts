import { PartnerEntity } from '../parties/party.ts'
import { refusalsOfKeptSecrets } from '../secrets/kept-secrets.ts'
import type { SecretBox } from '../secrets/secret-box.ts'
import type { CertificateUse } from './certificate-references.ts'
import { Profiles, type ProfilesOptions } from './profiles.ts'
import { REMOTE_SECRETS, remoteProfileSchema, type RemoteProfileValues } from './remote-profile-rules.ts'
import { RemoteProfileEntity, type RemoteProfile } from './remote-profile.ts'
import { remoteProfileContext, type RemoteProfileSecrets } from './secrets.ts'

/** The AS2 profiles of partners. */
export type RemoteProfiles = Profiles<RemoteProfile, RemoteProfileValues>

export function remoteProfiles({
  box,
  ...options
}: ProfilesOptions & { readonly box: SecretBox }): RemoteProfiles {
  return new Profiles(options, {
    entity: RemoteProfileEntity,
    table: 'as2_remote_profile',
    auditKind: 'as2-remote-profile',
    secrets: REMOTE_SECRETS,
    link: 'business_partner_id',
    party: { entity: PartnerEntity, noun: 'partner' },
    certificates: certificateUses,
    seal: (values) => sealed(values, box),
    open: (stored) => opened(stored, box),
    refusalsOfChange: (change, stored) =>
      refusalsOfKeptSecrets(change, stored, { url: 'endpoint', secrets: REMOTE_SECRETS }),
  })
}

/** The partner's certificate encrypts, and verifies where no other one does; without encryption it only verifies. */
function certificateUses(values: Readonly<Record<string, unknown>>): Record<string, CertificateUse> {
  return {
    partner_certificate_id: values['encryption_algorithm'] === 'None' ? 'verify' : 'encrypt',
    partner_signing_certificate_id: 'verify',
    previous_partner_signing_certificate_id: 'verify',
    tls_client_certificate_id: 'identify',
    tls_ca_certificate_id: 'trust',
  }
}

function sealed(values: RemoteProfileValues, box: SecretBox): Partial<RemoteProfile> {
  const { http_basic_password, http_headers, ...open } = values
  const secrets: RemoteProfileSecrets = { http_basic_password, http_headers }
  return {
    ...open,
    secrets: box.seal(JSON.stringify(secrets), remoteProfileContext(values.business_partner_id)),
  }
}

/** The stored properties as the schema knows them, secrets opened. */
function opened(profile: RemoteProfile, box: SecretBox): RemoteProfileValues {
  const text = box.openText(profile.secrets, remoteProfileContext(profile.business_partner_id))
  const stored: Record<string, unknown> = { ...profile, ...(JSON.parse(text) as RemoteProfileSecrets) }
  const names = Object.keys(remoteProfileSchema.shape)
  // They were checked when they were stored, and a rule that is newer must not keep them from being mended.
  return Object.fromEntries(names.map((name) => [name, stored[name] ?? null])) as RemoteProfileValues
}
