import t from 'tap'
import { readRevision } from '../../../storage/identity/credentials.ts'
import { execute, query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'

/** What was read of a credential holds while the revision is the same: every change must count it up. */

t.setTimeout(240_000)

t.test('the identity revision', async (t) => {
  const { pool } = await createTestDatabase(t)
  const counts = async (statement: string, values: unknown[] = []): Promise<boolean> => {
    const before = await readRevision(pool)
    t.ok((await execute(pool, statement, values)) > 0, statement)
    return (await readRevision(pool)) > before
  }
  const provider = `insert into oidc_provider (name, display_name, enabled, issuer_url, client_id, scopes, api_scopes,
    api_audience, sign_in, accept_tokens_without_audience)
    values ('login', '', true, 'https://login.example', 'waybill', '', '', '', false, false)`
  const account = `insert into service_account (name, description, kind, enabled) values ('erp', '', 'local', true)`
  const token = `insert into api_token (public_id, token_sha256, service_account_id, service_account, label, expires_at)
    select 'abcdefghijkl', sha256('x'), id, name, 'test', now() from service_account`
  const user = `insert into user_account (name, password) values ('anna', 'x')`

  t.test('is counted up by every change of a provider, an account, a token or a user', async (t) => {
    const inserts = {
      oidc_provider: provider,
      service_account: account,
      api_token: token,
      user_account: user,
    }
    for (const [table, insert] of Object.entries(inserts)) {
      t.ok(await counts(insert), insert)
      const columns = await query<{ name: string }>(
        pool,
        'select column_name as name from information_schema.columns where table_name = $1',
        [table],
      )
      for (const { name } of columns) {
        if (name === 'id' || name === 'last_used_at') continue
        t.ok(await counts(`update ${table} set ${name} = ${name}`), `${table}.${name}`)
      }
    }
    for (const table of ['api_token', 'service_account', 'oidc_provider', 'user_account'])
      t.ok(await counts(`delete from ${table}`), table)
  })

  t.test('stays the same when something is used', async (t) => {
    await pool.query(account)
    await pool.query(token)
    t.notOk(await counts('update api_token set last_used_at = now()'))
    t.notOk(await counts('update service_account set last_used_at = now()'))
  })

  t.test('is not seen before the change is committed, and never again after a rollback', async (t) => {
    const before = await readRevision(pool)
    const client = await pool.connect()
    await client.query('begin')
    await client.query('update api_token set revoked_at = now()')
    t.equal(await readRevision(pool), before)
    await client.query('rollback')
    client.release()
    t.equal(await readRevision(pool), before)
  })

  t.test('a revoked token stays revoked, whatever writes to the database', async (t) => {
    await pool.query('update api_token set revoked_at = now()')
    await t.rejects(pool.query('update api_token set revoked_at = null'), { message: /stays revoked/ })
  })
})
