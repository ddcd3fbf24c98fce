import { resolve } from 'node:path'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { changeFrom } from '../../runtime/endpoint/record-rules.ts'
import { SavedSettings } from '../../storage/settings/saved-settings.ts'
import { settingsRules } from '../../storage/settings/settings.ts'
import { withDatabaseAlone } from './command-database.ts'
import type { CommandContext, CommandDefinition, Given } from './context.ts'

/**
 * The way back for an operator whose saved storage cannot be used, so that no process starts whose API could change it.
 */
export const localStorageCommand: CommandDefinition = {
  name: 'settings storage local',
  summary:
    'store payloads in a directory from the next start on; for a server that does not start with the storage of its settings',
  operands: ['directory'],
  options: {},
  required: [],
  run: useLocalStorage,
}

async function useLocalStorage({ operands }: Given, context: CommandContext): Promise<void> {
  const [directory = ''] = operands
  const body = { storage_backend: 'local', storage_local_directory: directory }
  await withDatabaseAlone(context, (database) =>
    new SavedSettings(database).update(changeFrom(settingsRules, body, {}), SYSTEM_CALLER),
  )
  context.print(`From the next start on, payloads are stored in ${resolve(directory)}`)
}
