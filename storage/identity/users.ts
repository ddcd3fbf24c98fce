import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { z } from 'zod'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import { checked, unstorableProperties } from '../../runtime/endpoint/validation.ts'
import { validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { refusingViolations } from '../records/constraint.ts'
import type { RecordEvents } from '../records/record-events.ts'
import { changeIdentity } from './change.ts'
import { userEvents, userValues } from './events.ts'
import { refusalOfIssuer, refuseTakenIdentity, type Identity } from './identities.ts'
import { hashPassword, isPassword, refusalOfPassword } from './password.ts'
import { UserEntity, userName, userSubject, type User } from './user.ts'

const nameSchema = z.strictObject({ name: userName })
const identitySchema = z.strictObject({ issuer: z.string().min(1).max(500), subject: userSubject })

/** How a user proves who it is: by a password here, or at a provider. */
export type UserCredential =
  | { readonly kind: 'password'; readonly password: string }
  | { readonly kind: 'identity'; readonly issuer: string; readonly subject: string }

/** The users. Every method throws a WaybillError for what it refuses. */
export class Users {
  readonly #orm: MikroORM
  readonly #events: RecordEvents

  constructor({ orm, audit }: { readonly orm: MikroORM; readonly audit: AuditLog }) {
    this.#orm = orm
    this.#events = userEvents(audit)
  }

  /** By name. */
  async list(): Promise<readonly User[]> {
    return this.#orm.em.fork().findAll(UserEntity, { orderBy: { name: 'asc' } })
  }

  async add(name: string, credential: UserCredential, caller: Caller): Promise<User> {
    checked(nameSchema, { name })
    const password = credential.kind === 'password' ? await hashed(credential.password) : null
    return changeIdentity(this.#orm, caller, async (change) => {
      const { em } = change
      const identity = credential.kind === 'identity' ? await acceptedIdentity(em, credential, null) : NONE
      const user = em.create(UserEntity, { name, enabled: true, ...identity, password })
      await refusingViolations(
        { user_account_name_key: () => new WaybillError('CONFLICT', `A user ${name} exists already`) },
        () => em.flush(),
      )
      await this.#events.created(change, user, userValues(user))
      return user
    })
  }

  async setEnabled(name: string, enabled: boolean, caller: Caller): Promise<void> {
    await this.#change(name, caller, async (user) => {
      user.enabled = enabled
    })
  }

  async setPassword(name: string, password: string, caller: Caller): Promise<void> {
    const hash = await hashed(password)
    await this.#change(name, caller, async (user) => {
      user.password = hash
    })
  }

  /** Gives a user an identity at a provider, in place of the one it may have. A password stays. */
  async link(
    name: string,
    identity: { readonly issuer: string; readonly subject: string },
    caller: Caller,
  ): Promise<void> {
    await this.#change(name, caller, async (user, em) => {
      Object.assign(user, await acceptedIdentity(em, identity, { user: user.id }))
    })
  }

  /** The enabled user with this name and password, or null. An unknown name costs as much as a wrong password. */
  async byPassword(name: string, password: string): Promise<User | null> {
    const [problem] = unstorableProperties({ name })
    const user = problem === undefined ? await this.#orm.em.fork().findOne(UserEntity, { name }) : null
    const right = await isPassword(password, user?.password ?? null)
    return right && user?.enabled === true ? user : null
  }

  async #change(
    name: string,
    caller: Caller,
    work: (user: User, em: EntityManager) => Promise<void>,
  ): Promise<void> {
    await changeIdentity(this.#orm, caller, async (change) => {
      const user = await change.em.findOne(UserEntity, { name })
      if (user === null) throw new WaybillError('NOT_FOUND', `There is no user ${name}`)
      const before = userValues(user)
      await work(user, change.em)
      await this.#events.updated(change, user, this.#events.changes(before, userValues(user)))
    })
  }
}

const NONE: Identity = { oidc_issuer: '', oidc_subject: '' }

async function hashed(password: string): Promise<string> {
  const refusal = refusalOfPassword(password)
  if (refusal !== null) throw validationFailure({ password: refusal })
  return hashPassword(password)
}

async function acceptedIdentity(
  em: EntityManager,
  given: { readonly issuer: string; readonly subject: string },
  own: { readonly user: number } | null,
): Promise<Identity> {
  const { issuer, subject } = checked(identitySchema, { issuer: given.issuer, subject: given.subject })
  const refusal = await refusalOfIssuer(em, issuer)
  if (refusal !== null) throw validationFailure({ issuer: refusal })
  const identity = { oidc_issuer: issuer, oidc_subject: subject }
  await refuseTakenIdentity(em, identity, own)
  return identity
}
