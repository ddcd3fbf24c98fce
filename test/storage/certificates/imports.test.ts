import t from 'tap'
import { SYSTEM_CALLER } from '../../../runtime/endpoint/endpoint.ts'
import { AuditLog } from '../../../storage/audit/audit-log.ts'
import { CertificateEntity } from '../../../storage/certificates/certificate.ts'
import { CertificateImports, importsRound } from '../../../storage/certificates/imports.ts'
import { parseUpload } from '../../../storage/certificates/reading/parse.ts'
import { openDatabase, type Database } from '../../../storage/postgres/database.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { SecretBox } from '../../../storage/secrets/secret-box.ts'
import { makeCertificate, type TestCertificate } from '../../support/certificates.ts'
import { openTestDatabase } from '../../support/database.ts'

const KEY = 'a key for tests alone'

const make = (commonName: string) => makeCertificate({ commonName, keyType: 'ec' })

const importsOf = ({ orm, pool }: Pick<Database, 'orm' | 'pool'>) =>
  new CertificateImports({ orm, box: new SecretBox(KEY), audit: new AuditLog({ pool, key: null }) })

function found(...made: TestCertificate[]) {
  const text = made.map(({ certificatePem, privateKeyPem }) => certificatePem + privateKeyPem).join('')
  return parseUpload({ certificate: Buffer.from(text), privateKey: undefined, password: '' })
}

t.test('an upload that one node has read is imported by another, and after a restart', async (t) => {
  const database = await openTestDatabase(t, [CertificateEntity])
  const made = make('elsewhere')
  const { token } = await importsOf(database).keep(found(made))

  const { url, log } = database
  const other = await openDatabase({ url, poolSize: 2, entities: [CertificateEntity], log })
  t.teardown(() => other.close())
  const box = new SecretBox(KEY)
  const chosen = [{ index: 0, description: 'elsewhere' }]
  const [stored] = await importsOf(other).import(token, chosen, SYSTEM_CALLER)
  t.match(stored, { common_name: 'elsewhere', description: 'elsewhere' })
  const pkcs8 = made.privateKey.export({ format: 'der', type: 'pkcs8' })
  const sealed = stored?.private_key ?? ''
  t.ok(box.open(sealed, `certificate ${stored?.fingerprint_sha256} private_key`).equals(pkcs8))
})

t.test('what nobody imports in time is removed by the round, and nothing else is', async (t) => {
  const { orm, pool } = await openTestDatabase(t, [CertificateEntity])
  const imports = importsOf({ orm, pool })
  await imports.keep(found(make('late')))
  await query(pool, 'update certificate_import set expires_at = now()')
  const { token } = await imports.keep(found(make('in time')))
  await imports.keep(found(make('late too')))
  await query(
    pool,
    `update certificate_import set expires_at = now()
     where token_hash <> sha256(convert_to($1, 'UTF8'))`,
    [token],
  )
  t.ok((await importsRound(pool)) > 0, 'it says when the next round is')
  t.match(await query(pool, 'select count(*)::int as count from certificate_import'), [{ count: 1 }])
  t.equal((await imports.import(token, [{ index: 0, description: 'x' }], SYSTEM_CALLER)).length, 1)
})

t.test('uploads that wait for an import are bounded in number and size', async (t) => {
  const { orm, pool } = await openTestDatabase(t, [CertificateEntity])
  const imports = importsOf({ orm, pool })
  const material = found(make('one more'))
  const fill = (rows: number, bytes: number) =>
    query(
      pool,
      `insert into certificate_import (token_hash, material, expires_at)
       select sha256(convert_to(n::text, 'UTF8')), repeat('x', $2), now() + interval '1 minute'
       from generate_series(1, $1) n`,
      [rows, bytes],
    )
  await fill(199, 10)
  t.ok(await imports.keep(material), 'the last one for which there is room')
  await t.rejects(imports.keep(material), { code: 'TOO_BUSY' })
  await query(pool, 'update certificate_import set expires_at = now()')
  t.ok(await imports.keep(material), 'there is room again when others have expired')

  await fill(7, 9 * 1024 * 1024)
  t.ok(await imports.keep(material), '63 MiB are not too much')
  await query(pool, 'delete from certificate_import')
  await fill(8, 8 * 1024 * 1024)
  await t.rejects(imports.keep(material), { code: 'TOO_BUSY' }, '64 MiB are')
})
