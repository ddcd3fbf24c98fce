import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { OperatorError } from '../../runtime/errors.ts'
import {
  makeNextSecretKey,
  promoteNextSecretKey,
  secretKeyFile,
} from '../../storage/data-directory/secret-key.ts'
import type { DataDirectory } from '../../storage/data-directory/data-directory.ts'
import { presentKey } from '../../storage/secrets/present-key.ts'
import { connectedPrograms, sealAnew } from '../../storage/secrets/rotation.ts'
import { withDatabaseAlone, type CommandDatabase } from './command-database.ts'
import type { CommandContext, CommandDefinition, Given } from './context.ts'

export const secretCommands: readonly CommandDefinition[] = [
  {
    name: 'secret rotate',
    summary:
      'seal all secrets with a new key, while no server runs: with one made for <DATA_DIRECTORY>/secret.key, or, where SECRET_KEY is set, with NEW_SECRET_KEY',
    operands: [],
    options: {},
    required: [],
    run: rotate,
  },
]

async function rotate(_given: Given, context: CommandContext): Promise<void> {
  const { config } = context
  if (config.secretKey !== undefined && config.newSecretKey === undefined) {
    throw new OperatorError('SECRET_KEY is set: set NEW_SECRET_KEY to the key that comes after it')
  }
  if (config.secretKey === undefined && config.newSecretKey !== undefined) {
    throw new OperatorError('NEW_SECRET_KEY comes after a SECRET_KEY, which is not set')
  }
  await withDatabaseAlone(context, async (database, directory) => {
    const programs = await connectedPrograms(database.pool)
    if (programs.length > 0) {
      throw new OperatorError(
        `Other processes use the database (${programs.join(', ')}); stop every server of it first`,
      )
    }
    // Whatever a rotation that was cut off has left, it is known and in its place from here on.
    const present = await presentKey(database.pool, directory, config)
    if (config.newSecretKey === undefined) await rotateFile(context, database, directory, present)
    else await rotateGiven(context, database, present, config.newSecretKey)
  })
}

async function rotateFile(
  { say }: CommandContext,
  database: CommandDatabase,
  directory: DataDirectory,
  present: string,
): Promise<void> {
  const next = await makeNextSecretKey(directory)
  const count = await sealAnew(database, { from: present, to: next }, SYSTEM_CALLER)
  await promoteNextSecretKey(directory)
  say(
    `${count} secrets are sealed with the new key, which is in ${secretKeyFile(directory)}. Keep a copy of it.`,
  )
}

async function rotateGiven(
  { say }: CommandContext,
  database: CommandDatabase,
  present: string,
  next: string,
): Promise<void> {
  if (present === next) say('All secrets are sealed with NEW_SECRET_KEY already.')
  else
    say(
      `${await sealAnew(database, { from: present, to: next }, SYSTEM_CALLER)} secrets are sealed with NEW_SECRET_KEY.`,
    )
  say('From now on it is the SECRET_KEY: set it so for every server, and leave NEW_SECRET_KEY out.')
}
