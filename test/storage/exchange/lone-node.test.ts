import t from 'tap'
import { systemClock } from '../../../runtime/clock.ts'
import { presenceOf, refuseTwin } from '../../../storage/exchange/lone-node.ts'
import { openPool, query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'

t.setTimeout(120_000)

t.test('a node with a copy of the data directory of another one is refused', async (t) => {
  const { url, pool, log } = await createTestDatabase(t)
  const other = openPool({ url, size: 1, applicationName: presenceOf('twin'), log })
  await query(other, 'select 1')
  await t.rejects(refuseTwin(pool, { nodeId: 'twin', clock: systemClock, patienceMs: 0 }), {
    name: 'StorageError',
    message: /copy of this data directory/,
  })
  await refuseTwin(pool, { nodeId: 'another', clock: systemClock, patienceMs: 0 })
  const waiting = refuseTwin(pool, { nodeId: 'twin', clock: systemClock, patienceMs: 60_000 })
  await other.end()
  await waiting
  t.pass('one that ends meanwhile, as a predecessor does, is waited for')
})
