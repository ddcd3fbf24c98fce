import type { MikroORM } from '@mikro-orm/postgresql'
import type { Caller } from '../../runtime/endpoint/endpoint.ts'
import type { RecordChange } from '../records/record-events.ts'

/**
 * Runs a change of who may come in, in one transaction and one at a time: what it looks up, such as that nobody else
 * has an identity, still holds when it commits. Changes are rare, so waiting costs nothing.
 */
export async function changeIdentity<T>(
  orm: MikroORM,
  caller: Caller,
  work: (change: RecordChange) => Promise<T>,
): Promise<T> {
  return orm.em.fork().transactional(async (em) => {
    await em.execute('select from identity_revision for update')
    return work({ em, caller })
  })
}
