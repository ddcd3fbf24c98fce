import { OperatorError } from '../runtime/errors.ts'
import type { Module } from '../runtime/module.ts'
import { as2Module, type As2Services } from './as2/module.ts'
import { fileModule } from './file/module.ts'
import { httpPosterModule } from './http/module.ts'
import { notificationsModule } from './notifications/module.ts'

/** What the endpoints of all modules together may call. */
export type ModuleServices = As2Services

/** Every module of this program. A setting chooses those that are installed. */
const MODULES: readonly Module<ModuleServices>[] = [
  as2Module,
  fileModule,
  httpPosterModule,
  notificationsModule,
]

/** The modules with these names, in our order. Throws an OperatorError for a name that no module has. */
export function installedModules(names: readonly string[]): readonly Module<ModuleServices>[] {
  const known = MODULES.map(({ name }) => name)
  const unknown = names.filter((name) => !known.includes(name))
  if (unknown.length > 0) {
    throw new OperatorError(
      `WAYBILL_MODULES: there is no module ${unknown.join(', ')}; there are ${known.join(', ')}`,
    )
  }
  return MODULES.filter(({ name }) => names.includes(name))
}
