import t from 'tap'
import type { Pool } from 'pg'
import { createLog } from '../../../runtime/log.ts'
import { alertRound } from '../../../storage/alerts/alert-round.ts'
import { tick } from '../../../storage/sql/maintain.ts'
import { createTestDatabase } from '../../support/database.ts'
import { notifier, raise, rowsOf } from './fixture.ts'

t.setTimeout(300_000)

t.test('a round is that of the node which holds the clock, and comes once a minute', async (t) => {
  const { pool } = await createTestDatabase(t)
  const round = (nodeId: string) => alertRound({ pool, log: createLog('silent'), nodeId })
  t.equal(await round('node-1'), 5_000, 'nobody holds it yet')
  await tick(pool, 'node-1', 3_600)
  t.equal(await round('node-1'), 60_000)
  t.equal(await round('node-2'), 5_000)
})

/** An alert that was raised while one of its two notifiers was deleted. */
async function orphan(pool: Pool): Promise<void> {
  await notifier(pool, 'hook')
  await notifier(pool, 'other')
  const client = await pool.connect()
  await client.query('begin')
  await client.query(
    `select raise_alert('critical', 'delivery_failed', 'message', 'id', 'name', 'It failed', 'Why', 'a/b', null)`,
  )
  await pool.query(`delete from plugin_configuration where name = 'hook'`)
  await client.query('commit')
  client.release()
}

t.test('a row that was made while its notifier was deleted does not wait for ever', async (t) => {
  const { pool } = await createTestDatabase(t)
  await orphan(pool)
  await raise(pool)
  t.match(await rowsOf(pool), [{ outcome: 'queued' }])
  await tick(pool, 'node-1', 3_600)
  await alertRound({ pool, log: createLog('silent'), nodeId: 'node-1' })
  t.match(await rowsOf(pool), [{ outcome: 'failed', last_error: 'The notifier was deleted' }])
  t.match(await rowsOf(pool, 'other'), [{ outcome: 'queued' }, { outcome: 'queued' }])
})

t.test('it is ended also when certificates cannot be looked at', async (t) => {
  const { pool } = await createTestDatabase(t)
  await orphan(pool)
  await tick(pool, 'node-1', 3_600)
  await pool.query('alter table certificate_alert rename to elsewhere')
  await t.rejects(alertRound({ pool, log: createLog('silent'), nodeId: 'node-1' }))
  t.match(await rowsOf(pool), [{ outcome: 'failed', last_error: 'The notifier was deleted' }])
})
