import { resolve } from 'node:path'
import { changeFrom } from '../../runtime/endpoint/record-rules.ts'
import { OperatorError, WaybillError } from '../../runtime/errors.ts'
import type { SavedSettings } from '../../storage/settings/saved-settings.ts'
import { settingsRules } from '../../storage/settings/settings.ts'

/**
 * `waybill settings storage local <directory>`: the way back for an operator whose saved storage cannot be used, so that
 * no process starts whose API could change it. Answers what to tell; throws an OperatorError.
 */
export async function useLocalStorage(settings: SavedSettings, directory: string): Promise<string> {
  const body = { storage_backend: 'local', storage_local_directory: directory }
  try {
    await settings.update(changeFrom(settingsRules, body, {}))
  } catch (thrown) {
    if (!(thrown instanceof WaybillError)) throw thrown
    const refusals = Object.entries(thrown.details ?? {}).map(([name, rule]) => `${name}: ${String(rule)}`)
    throw new OperatorError(refusals.join('; '), { cause: thrown })
  }
  return `From the next start on, payloads are stored in ${resolve(directory)}`
}
