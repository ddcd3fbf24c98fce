import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { SYSTEM_CALLER } from '../../../runtime/endpoint/endpoint.ts'
import { AuditLog } from '../../../storage/audit/audit-log.ts'
import { openDataDirectory } from '../../../storage/data-directory/data-directory.ts'
import { makeNextSecretKey, secretKeyFile, secretKeyOf } from '../../../storage/data-directory/secret-key.ts'
import { OidcProviders } from '../../../storage/identity/providers.ts'
import { clientSecretContext } from '../../../storage/identity/secrets.ts'
import type { Database } from '../../../storage/postgres/database.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { ENTITIES } from '../../../storage/records/entities.ts'
import { keyInUse } from '../../../storage/secrets/key-check.ts'
import { presentKey } from '../../../storage/secrets/present-key.ts'
import { sealAnew } from '../../../storage/secrets/rotation.ts'
import { SEALED_COLUMNS } from '../../../storage/secrets/sealed-columns.ts'
import { SecretBox } from '../../../storage/secrets/secret-box.ts'
import { startApi } from '../../support/api.ts'
import { makeCertificate } from '../../support/certificates.ts'
import { openTestDatabase } from '../../support/database.ts'
import { temporaryDirectory, until } from '../../support/processes.ts'

t.setTimeout(240_000)

const OLD = 'the old key, with enough characters'
const NEW = 'the new key, with enough characters'
const GIVEN = { secretKey: undefined, newSecretKey: undefined }
let providers = 0

async function addProvider({ orm, pool }: Database, key: string, secret = 'hidden'): Promise<string> {
  const issuer_url = `https://login.example/${(providers += 1)}`
  const values = {
    name: `provider-${providers}`,
    display_name: '',
    enabled: true,
    issuer_url,
    client_id: 'waybill',
    client_secret: secret,
    scopes: 'openid',
    api_scopes: '',
    api_audience: '',
    sign_in: true,
    accept_tokens_without_audience: false,
  }
  const audit = new AuditLog({ pool, key: null })
  await new OidcProviders({ orm, box: new SecretBox(key), audit }).create(values, SYSTEM_CALLER)
  return issuer_url
}

/** As the command does it. */
function rotate({ pool }: Database, keys: { from: string; to: string }): Promise<number> {
  return sealAnew({ pool, audit: new AuditLog({ pool, key: null }) }, keys, SYSTEM_CALLER)
}

/** What a key makes of every stored client secret. */
async function secretsOpenedWith({ pool }: Database, key: string): Promise<readonly string[]> {
  const box = new SecretBox(key)
  const rows = await query<{ issuer_url: string; client_secret: string }>(
    pool,
    'select issuer_url, client_secret from oidc_provider order by id',
  )
  return rows.map((row) => box.openText(row.client_secret, clientSecretContext(row.issuer_url)))
}

async function checkedDatabase(t: Test): Promise<Database> {
  const database = await openTestDatabase(t, ENTITIES)
  await keyInUse(database.pool, [{ key: OLD, from: 'test' }])
  return database
}

t.test('a rotation seals everything with the new key, or nothing', async (t) => {
  const database = await checkedDatabase(t)
  await addProvider(database, OLD, 'one')
  await addProvider(database, OLD, 'two')
  t.equal(await rotate(database, { from: OLD, to: NEW }), 2)
  t.same(await secretsOpenedWith(database, NEW), ['one', 'two'])
  t.equal((await keyInUse(database.pool, [{ key: NEW, from: 'new' }])).from, 'new')
  await t.rejects(keyInUse(database.pool, [{ key: OLD, from: 'SECRET_KEY' }]), {
    name: 'StorageError',
    message: /sealed with the key [0-9a-f]{8}, which is not that of SECRET_KEY \(key [0-9a-f]{8}\)/,
  })

  // One value of a stranger's key, as a defect or a hand could leave it.
  await database.pool.query('alter table oidc_provider disable trigger sealed_with_present_key')
  await addProvider(database, 'a third key, with enough characters')
  await database.pool.query('alter table oidc_provider enable trigger sealed_with_present_key')
  await t.rejects(rotate(database, { from: NEW, to: OLD }), { name: 'StorageError' })
  await database.pool.query('delete from oidc_provider where id = (select max(id) from oidc_provider)')
  t.same(await secretsOpenedWith(database, NEW), ['one', 'two'], 'nothing was changed')
  const log = await query(database.pool, `select action from audit_event where kind = 'secret-key'`)
  t.same(log, [{ action: 'updated' }], 'and the log tells of the first rotation alone')
  t.ok(await keyInUse(database.pool, [{ key: NEW, from: 'new' }]))
})

t.test('a process with the old key cannot store what nobody could open', async (t) => {
  const database = await checkedDatabase(t)
  await rotate(database, { from: OLD, to: NEW })
  await t.rejects(addProvider(database, OLD), { message: /sealed with another secret key/ })
  await addProvider(database, NEW)
  t.same(await secretsOpenedWith(database, NEW), ['hidden'])
})

t.test('a secret that is being stored while a rotation begins is sealed anew, too', async (t) => {
  const database = await checkedDatabase(t)
  const writer = await database.pool.connect()
  await writer.query('begin')
  await writer.query(
    `insert into oidc_provider (name, display_name, enabled, issuer_url, client_id, client_secret, scopes, api_scopes,
       api_audience, sign_in, accept_tokens_without_audience)
     values ('slow', '', true, 'https://slow.example', 'waybill', $1, 'openid', '', '', true, false)`,
    [new SecretBox(OLD).seal('slow', clientSecretContext('https://slow.example'))],
  )
  const rotation = rotate(database, { from: OLD, to: NEW })
  await until(async () => {
    const waiting = await query<{ n: number }>(
      database.pool,
      `select count(*)::int as n from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and query like 'update secret_key_check%'`,
    )
    return waiting[0]?.n === 1
  }, 30_000)
  await writer.query('commit')
  writer.release()
  t.equal(await rotation, 1)
  t.same(await secretsOpenedWith(database, NEW), ['slow'])
})

t.test('a database of an earlier version tells a wrong key by the values that it has', async (t) => {
  const database = await openTestDatabase(t, ENTITIES)
  await addProvider(database, OLD)
  await t.rejects(keyInUse(database.pool, [{ key: NEW, from: 'SECRET_KEY' }]), {
    message: /is not that of SECRET_KEY/,
  })
  t.equal((await keyInUse(database.pool, [{ key: OLD, from: 'old' }])).from, 'old')
})

t.test('several processes that start at once on a new database agree on one key', async (t) => {
  const database = await openTestDatabase(t, ENTITIES)
  const starts = await Promise.allSettled(
    Array.from({ length: 6 }, (_, n) =>
      keyInUse(database.pool, [{ key: n % 2 === 0 ? OLD : NEW, from: String(n % 2) }]),
    ),
  )
  const agreed = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value.from] : []))
  t.equal(agreed.length, 3)
  t.equal(new Set(agreed).size, 1)
})

t.test('a rotation of the key file that was cut off', async (t) => {
  const database = await openTestDatabase(t, ENTITIES)
  const directory = await openDataDirectory(await temporaryDirectory(t))
  t.teardown(() => directory.release())
  const file = secretKeyFile(directory)
  const first = await presentKey(database.pool, directory, GIVEN)
  await addProvider(database, first)
  t.equal(await secretKeyOf(directory), first)

  t.test('before anything was sealed: the old key stays the present one', async (t) => {
    const next = await makeNextSecretKey(directory)
    t.equal(await presentKey(database.pool, directory, GIVEN), first)
    t.equal(await readFile(file, 'utf8'), `${first}\n`)
    t.equal(await readFile(`${file}.new`, 'utf8'), `${next}\n`)
  })

  t.test('after all was sealed: the new key is put into its place', async (t) => {
    const next = await makeNextSecretKey(directory)
    await rotate(database, { from: first, to: next })
    t.equal(await presentKey(database.pool, directory, GIVEN), next)
    t.equal(await readFile(file, 'utf8'), `${next}\n`)
    t.notOk(existsSync(`${file}.new`))
    t.same(await secretsOpenedWith(database, next), ['hidden'])
    t.equal(await presentKey(database.pool, directory, GIVEN), next, 'and stays there')
  })

  t.test('with neither key right it is refused, and nothing is moved', async (t) => {
    const present = await readFile(file, 'utf8')
    await rotate(database, { from: present.trim(), to: OLD })
    await makeNextSecretKey(directory)
    await t.rejects(presentKey(database.pool, directory, GIVEN), { name: 'StorageError' })
    t.equal(await readFile(file, 'utf8'), present)
    t.equal(await presentKey(database.pool, directory, { secretKey: OLD, newSecretKey: undefined }), OLD)
    t.equal(await presentKey(database.pool, directory, { secretKey: NEW, newSecretKey: OLD }), OLD)
  })
})

t.test('every column with sealed values is known to the rotation and guarded', async (t) => {
  const { client, database } = await startApi(t)
  const { certificatePem, privateKeyPem } = makeCertificate({ commonName: 'acme' })
  const parts = { certificate: certificatePem, private_key: privateKeyPem, description: 'signs' }
  t.equal((await client.ask('POST', '/certificates', { parts })).status, 201)
  const other = makeCertificate({ commonName: 'globex' })
  const choice = { certificate: other.certificatePem, private_key: other.privateKeyPem }
  t.equal((await client.ask('POST', '/certificates', { parts: choice })).status, 200, 'kept for a choice')
  const { id } = await client.create('/partners', { name: 'globex' })
  await client.create('/as2/remote-profiles', {
    business_partner_id: id,
    as2id: 'GLOBEX',
    endpoint: 'https://as2.globex.example',
    encryption_algorithm: 'None',
    receipt_signed: false,
  })
  await client.create('/plugins/configs?type=http-poster', {
    name: 'poster',
    url: 'https://erp.example',
  })
  await client.create('/oidc-providers', {
    name: 'login',
    issuer_url: 'https://login.example',
    client_id: 'waybill',
    client_secret: 'hidden',
  })
  const texts = await query<{ table: string; column: string }>(
    database.pool,
    `select table_name as table, column_name as column from information_schema.columns
     where table_schema = 'public' and data_type in ('text', 'jsonb', 'character varying')`,
  )
  const sealed = new Set<string>()
  for (const { table, column } of texts) {
    const found = await query(
      database.pool,
      `select from "${table}" where "${column}"::text ~ '^"?v1:[0-9a-f]{8}:' limit 1`,
    )
    if (found.length > 0) sealed.add(`${table}.${column}`)
  }
  const known = SEALED_COLUMNS.map(({ table, column }) => `${table}.${column}`)
  t.same([...sealed].toSorted(), known.toSorted())
  const guarded = await query<{ guarded: string }>(
    database.pool,
    `select distinct event_object_table || '.' || substring(action_statement from $$'(\\w+)'$$) as guarded
     from information_schema.triggers where trigger_name = 'sealed_with_present_key'`,
  )
  t.same(guarded.map((row) => row.guarded).toSorted(), known.toSorted())
})
