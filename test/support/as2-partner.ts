import type { TestApi } from './api.ts'
import { makeCertificate, type TestCertificate } from './certificates.ts'

/** What most tests of AS2 begin with: an organization and a partner that can exchange messages. */
export interface As2Partners {
  /** Id of the partner. */
  readonly globex: number
  /** Id of the organization. */
  readonly acme: number
  readonly acmeKeys: TestCertificate
  readonly globexKeys: TestCertificate
  /** Ids of the stored certificates; ours has its key. */
  readonly acmeCertificate: number
  readonly globexCertificate: number
  /** Path of the partner's profile. */
  readonly profile: string
}

export async function storeCertificate(
  { client }: Pick<TestApi, 'client'>,
  description: string,
  { certificatePem, privateKeyPem }: TestCertificate,
  withKey: boolean,
): Promise<number> {
  const parts = {
    certificate: certificatePem,
    description,
    ...(withKey ? { private_key: privateKeyPem } : {}),
  }
  const answer = await client.ask('POST', '/certificates', { parts })
  if (answer.status !== 201) throw new Error(`The certificate is not stored: ${answer.text}`)
  return Number(answer.data['id'])
}

/** Acme sends to Globex, at `endpoint`. */
export async function makeAs2Partners(api: Pick<TestApi, 'client'>, endpoint: string): Promise<As2Partners> {
  const { client } = api
  const acmeKeys = makeCertificate({ commonName: 'acme edi' })
  const globexKeys = makeCertificate({ commonName: 'globex edi' })
  const acmeCertificate = await storeCertificate(api, 'ours', acmeKeys, true)
  const globexCertificate = await storeCertificate(api, 'theirs', globexKeys, false)
  const acme = Number((await client.create('/organizations', { name: 'acme' }))['id'])
  const globex = Number((await client.create('/partners', { name: 'globex' }))['id'])
  await client.create('/as2/local-profiles', {
    local_organization_id: acme,
    as2id: 'ACME',
    signing_certificate_id: acmeCertificate,
    decryption_certificate_id: acmeCertificate,
  })
  await client.create('/as2/remote-profiles', {
    business_partner_id: globex,
    as2id: 'GLOBEX',
    endpoint,
    partner_certificate_id: globexCertificate,
  })
  const profile = `/as2/remote-profiles/${globex}`
  return { globex, acme, acmeKeys, globexKeys, acmeCertificate, globexCertificate, profile }
}
