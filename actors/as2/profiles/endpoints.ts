import { z } from 'zod'
import type { Endpoint } from '../../../runtime/endpoint/endpoint.ts'
import { pagingParameters, timestamp } from '../../../runtime/endpoint/paging.ts'
import { resourceEndpoints } from '../../../runtime/endpoint/resource.ts'
import { localProfileSchema, type LocalProfile } from '../../../storage/profiles/local-profile.ts'
import type { LocalProfiles } from '../../../storage/profiles/local-profiles.ts'
import { REMOTE_SECRETS, remoteProfileSchema } from '../../../storage/profiles/remote-profile-rules.ts'
import type { RemoteProfile } from '../../../storage/profiles/remote-profile.ts'
import type { RemoteProfiles } from '../../../storage/profiles/remote-profiles.ts'

/** `/as2/local-profiles` and `/as2/remote-profiles`. */

export interface ProfileServices {
  readonly localProfiles: LocalProfiles
  readonly remoteProfiles: RemoteProfiles
}

const stamps = { created_at: timestamp, updated_at: timestamp }
const readOnly = Object.keys(stamps)
const tag = 'AS2 profiles'
const query = z.object(pagingParameters())
const CERTIFICATES =
  'Certificates must be stored, hold a private key where they sign, decrypt or identify us, and have a key that serves: RSA of 1024 bits or more, or EC on a curve of 224 bits or more (P-224 to P-521, secp256k1, Brainpool).'
const OUR_CHANGE_OVER =
  'To replace our certificates without a refused message: first set `decryption_certificate_id` to the new one and `previous_decryption_certificate_id` to the old one at once, and give the new one to the partners. Set `signing_certificate_id` when all of them accept it, and clear the previous one when none encrypts to it any more: what is encrypted to it then is refused.'
const THEIR_CHANGE_OVER =
  "To replace the partner's certificates without a refused message: set the one that verifies to the new one and `previous_partner_signing_certificate_id` to the old one at once, before the partner signs with the new one; set the one that encrypts when the partner can decrypt with it; clear the previous one when the partner has changed: what is signed with it then is refused."

export function profileEndpoints(services: ProfileServices): readonly Endpoint[] {
  return [...localEndpoints(services.localProfiles), ...remoteEndpoints(services.remoteProfiles)]
}

function localEndpoints(profiles: LocalProfiles): readonly Endpoint[] {
  const record = 'As2LocalProfile'
  return resourceEndpoints({
    path: '/as2/local-profiles',
    tag,
    plural: 'profiles',
    noun: 'the AS2 profile of an organization',
    record,
    idText: 'Id of the organization.',
    orderText: 'by organization id',
    query,
    rules: {
      name: record,
      schema: localProfileSchema,
      readOnly,
      identity: { local_organization_id: 'id' },
    },
    answer: z
      .object({ ...localProfileSchema.shape, ...stamps })
      .meta({ id: record, description: 'How an organization speaks AS2.' }),
    records: profiles,
    shown: shownLocal,
    notes: {
      create: `${CERTIFICATES} A profile may lack them: what then cannot be signed fails its delivery with that reason.`,
      update: `${CERTIFICATES} Counts from the next message; nothing is restarted. ${OUR_CHANGE_OVER}`,
      delete: 'From then on nothing is sent or accepted for the organization over AS2.',
    },
    errors: { create: ['CONFLICT'] },
  })
}

function remoteEndpoints(profiles: RemoteProfiles): readonly Endpoint[] {
  const record = 'As2RemoteProfile'
  const secrets = REMOTE_SECRETS.join('` and `')
  const { http_basic_password: _password, http_headers: _headers, ...open } = remoteProfileSchema.shape
  return resourceEndpoints({
    path: '/as2/remote-profiles',
    tag,
    plural: 'profiles',
    noun: 'the AS2 profile of a partner',
    record,
    idText: 'Id of the partner.',
    orderText: 'by partner id',
    query,
    rules: {
      name: record,
      schema: remoteProfileSchema,
      readOnly,
      identity: { business_partner_id: 'id' },
    },
    answer: z
      .object({ ...open, ...stamps })
      .meta({ id: record, description: 'How a partner speaks AS2, and how the service speaks to it.' }),
    records: profiles,
    shown: shownRemote,
    notes: {
      create: `What is left out has a secure default: compressed, signed and encrypted, with a synchronous signed receipt. ${CERTIFICATES}`,
      update: `Counts from the next message; nothing is restarted. \`${secrets}\` are never returned. An update that leaves one out keeps it; one that changes \`endpoint\` must send them again. ${THEIR_CHANGE_OVER}`,
      delete: 'From then on nothing is sent to the partner or accepted from it over AS2.',
    },
    errors: { create: ['CONFLICT'] },
  })
}

function shownLocal(profile: LocalProfile) {
  return {
    local_organization_id: profile.local_organization_id,
    as2id: profile.as2id,
    signing_certificate_id: profile.signing_certificate_id ?? null,
    decryption_certificate_id: profile.decryption_certificate_id ?? null,
    previous_decryption_certificate_id: profile.previous_decryption_certificate_id ?? null,
    created_at: profile.created_at.toISOString(),
    updated_at: profile.updated_at.toISOString(),
  }
}

function shownRemote(profile: RemoteProfile) {
  const { secrets: _, created_at, updated_at, ...open } = profile
  return {
    ...open,
    partner_certificate_id: open.partner_certificate_id ?? null,
    partner_signing_certificate_id: open.partner_signing_certificate_id ?? null,
    previous_partner_signing_certificate_id: open.previous_partner_signing_certificate_id ?? null,
    tls_client_certificate_id: open.tls_client_certificate_id ?? null,
    tls_ca_certificate_id: open.tls_ca_certificate_id ?? null,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
}
