import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { AuditLog } from '../../storage/audit/audit-log.ts'
import { openDataDirectory } from '../../storage/data-directory/data-directory.ts'
import { makeNextSecretKey, secretKeyOf } from '../../storage/data-directory/secret-key.ts'
import { sealAnew } from '../../storage/secrets/rotation.ts'
import { waybill } from '../support/command.ts'
import { createTestDatabase } from '../support/database.ts'
import { temporaryDirectory } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

/** `waybill secret rotate`, and a start with a wrong key. */

t.setTimeout(240_000)

const PROVIDER = {
  name: 'login',
  issuer_url: 'https://login.example',
  client_id: 'waybill',
  client_secret: 'the secret of the client',
}
const OLD = 'the first secret key of the environment'
const NEW = 'the second secret key of the environment'

interface Server {
  readonly directory: string
  readonly env: Readonly<Record<string, string>>
}

async function started(t: Test, { directory, env }: Server): Promise<Waybill> {
  const server = await Waybill.start({ directory, env })
  t.teardown(async () => server.stop())
  return server
}

/** A secret is opened by an update that keeps it: only with the key that it was sealed with does that work. */
async function opensSecrets(server: Waybill): Promise<boolean> {
  const change = { display_name: `Login ${Date.now()}` }
  return server.request('PUT', '/oidc-providers/1', change).then(
    () => true,
    () => false,
  )
}

/** The lines that a start prints which must not come up. */
async function refusedStart(t: Test, { directory, env }: Server): Promise<string> {
  const { child, output } = await Waybill.spawn({ directory, env })
  t.teardown(async () => child.kill('SIGKILL'))
  const { promise, resolve } = Promise.withResolvers<number | null>()
  child.once('close', resolve)
  t.equal(await promise, 1)
  const lines = output.filter((line) => !line.startsWith('{'))
  t.equal(lines.length, 1)
  return lines[0] ?? ''
}

t.test('the key of the data directory is replaced, and everything stays readable', async (t) => {
  const directory = await temporaryDirectory(t)
  const server = { directory, env: {} }
  const keyFile = join(directory, 'data', 'secret.key')
  const first = await started(t, server)
  await first.request('POST', '/oidc-providers', PROVIDER)
  const old = await readFile(keyFile, 'utf8')

  const beside = await waybill(['secret', 'rotate'], { directory })
  t.equal(beside.code, 1)
  t.match(beside.stderr, /^waybill: The data directory .* is in use by another process/)
  t.ok(await opensSecrets(first), 'while a server runs nothing is changed')
  await first.stop()

  const rotated = await waybill(['secret', 'rotate'], { directory })
  t.equal(rotated.code, 0, rotated.stderr)
  t.match(rotated.stderr, /^1 secrets are sealed with the new key/)
  const present = await readFile(keyFile, 'utf8')
  t.not(present, old)
  t.notMatch(rotated.stderr + rotated.stdout, present.trim(), 'and is not printed')
  const second = await started(t, server)
  t.ok(await opensSecrets(second))
  await second.stop()

  t.test('a wrong key is a clear refusal to start', async (t) => {
    await writeFile(keyFile, old)
    const line = await refusedStart(t, server)
    t.match(
      line,
      /^waybill: The secrets in the database are sealed with the key [0-9a-f]{8}, which is not that of .*secret\.key/,
    )
    t.notMatch(line, old.trim())
    t.match(await refusedStart(t, { directory, env: { SECRET_KEY: OLD } }), /which is not that of SECRET_KEY/)
    t.match(await waybill(['secret', 'rotate'], { directory }), { code: 1, stderr: /sealed with the key/ })
    await writeFile(keyFile, present)
    const third = await started(t, server)
    t.ok(await opensSecrets(third), 'the right one is good again')
    await third.stop()
  })
})

t.test('a rotation that was cut off after all was sealed is ended by the next start', async (t) => {
  const database = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const server = { directory, env: { DATABASE_URL: database.url } }
  const keyFile = join(directory, 'data', 'secret.key')
  const first = await started(t, server)
  await first.request('POST', '/oidc-providers', PROVIDER)
  await first.stop()
  const data = await openDataDirectory(join(directory, 'data'))
  const from = await secretKeyOf(data)
  const to = await makeNextSecretKey(data)
  const { pool } = database
  const audit = new AuditLog({ pool, key: null })
  t.equal(await sealAnew({ pool, audit }, { from, to }, SYSTEM_CALLER), 1)
  await data.release()

  const again = await started(t, server)
  t.ok(await opensSecrets(again))
  t.equal(await readFile(keyFile, 'utf8'), `${to}\n`, 'the new key is in its place')
})

t.test('a key of the environment is replaced by NEW_SECRET_KEY', async (t) => {
  const database = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const keys = (...[secretKey, newSecretKey]: string[]) => ({
    DATABASE_URL: database.url,
    ...(secretKey === undefined ? {} : { SECRET_KEY: secretKey }),
    ...(newSecretKey === undefined ? {} : { NEW_SECRET_KEY: newSecretKey }),
  })
  const rotate = (env: Readonly<Record<string, string>>) => waybill(['secret', 'rotate'], { directory, env })
  const first = await started(t, { directory, env: keys(OLD) })
  await first.request('POST', '/oidc-providers', PROVIDER)

  const elsewhere = await temporaryDirectory(t)
  const beside = await waybill(['secret', 'rotate'], { directory: elsewhere, env: keys(OLD, NEW) })
  t.equal(beside.code, 1)
  t.match(beside.stderr, /^waybill: Other processes use the database \(.*waybill.*\)/)
  await first.stop()

  t.match(await rotate(keys(OLD)), { code: 1, stderr: /^waybill: SECRET_KEY is set: set NEW_SECRET_KEY/ })
  t.match(await rotate(keys(NEW, OLD)), { code: 0 }, 'the database is sealed with the second of both already')
  t.match(await rotate(keys(OLD, NEW)), { code: 0, stderr: /^1 secrets are sealed with NEW_SECRET_KEY/ })
  t.match(await rotate(keys(OLD, NEW)), {
    code: 0,
    stderr: /^All secrets are sealed with NEW_SECRET_KEY already/,
  })
  t.match(await refusedStart(t, { directory, env: keys(OLD) }), /which is not that of SECRET_KEY/)
  const both = await started(t, { directory, env: keys(OLD, NEW) })
  t.ok(await opensSecrets(both), 'until the settings are changed a server may have both')
  await both.stop()
  const next = await started(t, { directory, env: keys(NEW) })
  t.ok(await opensSecrets(next))
  const { events } = await next.request<{ events: object[] }>('GET', '/audit?kind=secret-key')
  const changes = [{ field: 'key_id', old: /^[0-9a-f]{8}$/, new: /^[0-9a-f]{8}$/ }]
  t.match(events, [{ actor: 'system', action: 'updated', record_id: null, changes }])
  t.equal(events.length, 1, 'an event is the one rotation that sealed anything')
})
