import type { EntityManager } from '@mikro-orm/postgresql'
import { WaybillError } from '../../runtime/errors.ts'
import { OidcProviderEntity } from './provider.ts'
import { ServiceAccountEntity } from './service-account.ts'
import { UserEntity } from './user.ts'

/** An identity, issuer and subject, belongs to one service account or to one user: a token has one caller. */

export interface Identity {
  readonly oidc_issuer: string
  readonly oidc_subject: string
}

/** Why an issuer cannot be that of an identity, or null. */
export async function refusalOfIssuer(em: EntityManager, issuer: string): Promise<string | null> {
  const providers = await em.count(OidcProviderEntity, { issuer_url: issuer })
  return providers === 0 ? 'is the issuer URL of no stored identity provider' : null
}

/** Call it within a change. `own` is who is being changed and may keep the identity; an empty one is nobody's. */
export async function refuseTakenIdentity(
  em: EntityManager,
  { oidc_issuer, oidc_subject }: Identity,
  own: { readonly account: number } | { readonly user: number } | null,
): Promise<void> {
  if (oidc_subject === '') return
  const identity = { oidc_issuer, oidc_subject }
  const account = await em.findOne(ServiceAccountEntity, identity)
  const user = await em.findOne(UserEntity, identity)
  const ownAccount = own !== null && 'account' in own ? own.account : undefined
  const ownUser = own !== null && 'user' in own ? own.user : undefined
  if (account !== null && account.id !== ownAccount) throw taken(`the service account ${account.name}`)
  if (user !== null && user.id !== ownUser) throw taken(`the user ${user.name}`)
}

function taken(holder: string): WaybillError {
  return new WaybillError('CONFLICT', `The identity is that of ${holder}`)
}
