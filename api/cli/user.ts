import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { validationFailure } from '../../runtime/errors.ts'
import { subjectOf, type User } from '../../storage/identity/user.ts'
import { Users } from '../../storage/identity/users.ts'
import { withDatabase } from './command-database.ts'
import type { CommandContext, CommandDefinition, Given } from './context.ts'
import { readNewPassword } from './password-input.ts'

const IDENTITY = { issuer: 'issuer URL', subject: 'sub' }

export const userCommands: readonly CommandDefinition[] = [
  {
    name: 'user add',
    summary:
      'add a user: with an identity at a provider, or with a password, which is read from standard input',
    operands: ['name'],
    options: IDENTITY,
    required: [],
    run: addUser,
  },
  {
    name: 'user list',
    summary: 'list the users: name, enabled or disabled, how they sign in, and as whom they are recorded',
    operands: [],
    options: {},
    required: [],
    run: listUsers,
  },
  {
    name: 'user disable',
    summary: 'refuse a user from the next request on',
    operands: ['name'],
    options: {},
    required: [],
    run: (given, context) => setEnabled(given, context, false),
  },
  {
    name: 'user enable',
    summary: 'let a disabled user in again',
    operands: ['name'],
    options: {},
    required: [],
    run: (given, context) => setEnabled(given, context, true),
  },
  {
    name: 'user set-password',
    summary: 'give a user another password, which is read from standard input',
    operands: ['name'],
    options: {},
    required: [],
    run: setPassword,
  },
  {
    name: 'user link',
    summary: 'give a user an identity at a provider, in place of one that it has',
    operands: ['name'],
    options: IDENTITY,
    required: ['issuer', 'subject'],
    run: linkUser,
  },
]

async function addUser({ operands, options }: Given, context: CommandContext): Promise<void> {
  const { issuer, subject } = options
  if ((issuer === undefined) !== (subject === undefined)) {
    throw validationFailure({ [issuer === undefined ? 'issuer' : 'subject']: 'is required' })
  }
  const credential =
    issuer === undefined || subject === undefined
      ? ({ kind: 'password', password: await readNewPassword(context) } as const)
      : ({ kind: 'identity', issuer, subject } as const)
  const user = await withUsers(context, (users) => users.add(nameOf(operands), credential, SYSTEM_CALLER))
  context.say(`User ${user.name} added.`)
}

async function listUsers(_given: Given, context: CommandContext): Promise<void> {
  for (const user of await withUsers(context, (users) => users.list())) context.print(lineOf(user))
}

async function setEnabled({ operands }: Given, context: CommandContext, enabled: boolean): Promise<void> {
  const name = nameOf(operands)
  await withUsers(context, (users) => users.setEnabled(name, enabled, SYSTEM_CALLER))
  context.say(`User ${name} ${enabled ? 'enabled' : 'disabled'}.`)
}

async function setPassword({ operands }: Given, context: CommandContext): Promise<void> {
  const name = nameOf(operands)
  const password = await readNewPassword(context)
  await withUsers(context, (users) => users.setPassword(name, password, SYSTEM_CALLER))
  context.say(`The password of ${name} is set.`)
}

async function linkUser({ operands, options }: Given, context: CommandContext): Promise<void> {
  const name = nameOf(operands)
  const { issuer = '', subject = '' } = options
  await withUsers(context, (users) => users.link(name, { issuer, subject }, SYSTEM_CALLER))
  context.say(`User ${name} is ${subject} at ${issuer}.`)
}

function withUsers<T>(context: CommandContext, work: (users: Users) => Promise<T>): Promise<T> {
  return withDatabase(context, (database) => work(new Users(database)))
}

/** The parser has seen that it is there. */
function nameOf([name = '']: readonly string[]): string {
  return name
}

/** Columns with a tab between them, for programs too. */
function lineOf(user: User): string {
  const ways = [
    ...(user.password == null ? [] : ['password']),
    ...(user.oidc_issuer === '' ? [] : [user.oidc_issuer]),
  ]
  return [user.name, user.enabled ? 'enabled' : 'disabled', ways.join(','), subjectOf(user)].join('\t')
}
