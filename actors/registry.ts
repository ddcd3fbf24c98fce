import { OperatorError } from '../runtime/errors.ts'
import type { Module } from '../runtime/module.ts'
import { as2Module } from './as2/module.ts'
import type { ProfileServices } from './as2/profiles.ts'
import { fileModule } from './file/module.ts'

/** What the endpoints of all modules together may call. */
export type ModuleServices = ProfileServices

/** Every module of this program. A setting chooses those that are installed. */
const MODULES: readonly Module<ModuleServices>[] = [as2Module, fileModule]

/** Names that the setting may hold although their modules are still to come. */
const PLANNED: readonly string[] = ['http-poster', 'notifications']

/** The modules with these names, in our order. Throws an OperatorError for a name that no module has. */
export function installedModules(names: readonly string[]): readonly Module<ModuleServices>[] {
  const known = [...MODULES.map(({ name }) => name), ...PLANNED]
  const unknown = names.filter((name) => !known.includes(name))
  if (unknown.length > 0) {
    throw new OperatorError(
      `WAYBILL_MODULES: there is no module ${unknown.join(', ')}; there are ${known.join(', ')}`,
    )
  }
  return MODULES.filter(({ name }) => names.includes(name))
}
