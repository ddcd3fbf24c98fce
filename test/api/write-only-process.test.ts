import t from 'tap'
import { Canaries, columnsOf } from '../support/canaries.ts'
import { waybill } from '../support/command.ts'
import { createTestDatabase } from '../support/database.ts'
import { temporaryDirectory } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

/** Secrets that a process gets from its environment, and a command from its standard input. */

t.setTimeout(300_000)

t.test('no secret of the environment is in an answer, a log line or a column', async (t) => {
  const canaries = new Canaries()
  const database = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const env = {
    DATABASE_URL: database.url,
    SECRET_KEY: canaries.make('SECRET_KEY'),
    AUDIT_KEY: canaries.make('AUDIT_KEY'),
    AWS_ACCESS_KEY_ID: canaries.make('AWS_ACCESS_KEY_ID'),
    AWS_SECRET_ACCESS_KEY: canaries.make('AWS_SECRET_ACCESS_KEY'),
    AWS_SESSION_TOKEN: canaries.make('AWS_SESSION_TOKEN'),
    LOG_LEVEL: 'trace',
  }
  const server = await Waybill.start({ directory, env })
  t.teardown(() => server.kill())
  const ask = async (method: string, path: string, body?: object): Promise<void> => {
    const answer = await fetch(`${server.url}/api/v1${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    canaries.answers.push(`${JSON.stringify([...answer.headers])} ${await answer.text()}`)
  }
  const s3 = { storage_backend: 's3', storage_s3_bucket: 'waybill', storage_s3_region: 'eu-central-1' }
  await ask('PUT', '/settings', { ...s3, storage_s3_endpoint: 'http://127.0.0.1:9' })
  await ask('POST', '/settings/storage/test')
  await ask('PUT', '/settings', { ...s3, storage_s3_endpoint: `http://u:${canaries.make('endpoint')}@h` })
  await ask('PUT', '/settings', { storage_backend: 'local', storage_local_directory: directory })
  for (const path of ['/settings', '/health', '/stats', '/services', '/openapi.yaml', '/audit']) {
    await ask('GET', path)
  }
  await ask('POST', '/audit/verify')

  const run = async (args: string, input = '', more: object = {}): Promise<number | null> => {
    const { code, stdout, stderr } = await waybill(args.split(' '), {
      directory,
      env: { ...env, ...more },
      input,
    })
    canaries.answers.push(stdout, stderr)
    return code
  }
  const password = canaries.make('password of a user')
  t.equal(await run('user add anna', `${password}\n`), 0)
  t.equal(await run('user add anna', `${password}\n`), 1)
  t.equal(await run('user set-password nobody', `${password}\n`), 1)
  t.equal(await run('user add bert', `${canaries.make('two lines')}\t\n`), 1)
  canaries.lines.push(...server.output)
  t.equal(await server.stop(), 0)

  const wrongKey = { SECRET_KEY: canaries.make('another SECRET_KEY') }
  t.equal(await run('secret rotate', '', wrongKey), 1)
  t.equal(await run('secret rotate', '', { NEW_SECRET_KEY: canaries.make('NEW_SECRET_KEY') }), 0)
  const url = (secret: string): string => `postgres://waybill:${secret}@127.0.0.1:9/waybill`
  for (const wrong of [
    { DATABASE_URL: url(canaries.make('password of the database')) },
    { DATABASE_URL: url(canaries.make('database')).replace('postgres:', 'mysql:') },
    { DATABASE_URL: `postgres://waybill:${canaries.make('no URL')}@[` },
    { PUBLIC_URL: `https://waybill:${canaries.make('PUBLIC_URL')}@[` },
    { HTTP_PORT: canaries.make('a variable too far') },
    wrongKey,
  ]) {
    const refused = await Waybill.spawn({ directory, env: { ...env, ...wrong } })
    const code = await new Promise((resolve) => refused.child.once('close', resolve))
    t.equal(code, 1, Object.keys(wrong).join())
    t.ok(refused.output.length > 0)
    canaries.lines.push(...refused.output)
  }
  t.ok(canaries.lines.length > 10)
  t.ok(canaries.answers.length > 10)
  t.same(canaries.missed(), [], 'where they are, they are found')
  t.same(
    canaries.answers.flatMap((text) => canaries.leaksIn(text)),
    [],
    'in answers and in what commands print',
  )
  t.same(
    canaries.lines.flatMap((text) => canaries.leaksIn(text)),
    [],
    'in log lines',
  )
  t.same(canaries.leaksIn(await columnsOf(database.pool)), [], 'in columns')
})
