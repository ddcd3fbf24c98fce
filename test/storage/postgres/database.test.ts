import { defineEntity, p } from '@mikro-orm/postgresql'
import t from 'tap'
import { execute, query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase, openTestDatabase } from '../../support/database.ts'

const Partner = defineEntity({
  name: 'Partner',
  tableName: 'partner',
  properties: {
    id: p.integer().primary(),
    name: p.string(),
    displayName: p.string().default(''),
  },
})

void t.test('records of the ORM and of hot statements are the same, on the same connections', async (t) => {
  const { orm, pool } = await openTestDatabase(t, [Partner])
  const em = orm.em.fork()
  const partner = em.create(Partner, { name: 'acme' })
  await em.flush()
  t.same(await query(pool, 'select id, name from partner'), [{ id: partner.id, name: 'acme' }])
  await execute(pool, `update partner set display_name = 'Acme Ä.G.'`)
  t.equal((await orm.em.fork().findOneOrFail(Partner, { name: 'acme' })).displayName, 'Acme Ä.G.')
  t.ok(pool.totalCount > 0)
})

void t.test('each test has a migrated database of its own', async (t) => {
  const [one, other] = await Promise.all([createTestDatabase(t), createTestDatabase(t)])
  await execute(one.pool, `insert into partner (name) values ('acme')`)
  t.same(await query(one.pool, 'select name from partner'), [{ name: 'acme' }])
  t.same(await query(other.pool, 'select name from partner'), [])
})
