import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startApi } from '../support/api.ts'
import { waybill, waybillHere } from '../support/command.ts'
import { isAlive, temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

/** `waybill token create`: the first API token of a release build comes from its machine. */

t.setTimeout(240_000)

const FIRST = ['token', 'create', '--service-account', 'ops', '--label', 'first']
const TOKEN = /^wbl_[0-9A-Za-z]{52,}\n$/

async function server(t: Test, directory: string): Promise<Waybill> {
  const started = await Waybill.start({ directory, env: { WAYBILL_BUILD: 'release' } })
  t.teardown(async () => started.stop())
  return started
}

async function status(url: string, token: string): Promise<number> {
  const headers = { authorization: `Bearer ${token.trim()}` }
  return (await fetch(`${url}/api/v1/service-accounts`, { headers })).status
}

t.test('on the embedded database, before the server ever ran, and while it runs', async (t) => {
  const directory = await temporaryDirectory(t)
  const { code, stdout, stderr } = await waybill(FIRST, { directory })
  t.equal(code, 0, stderr)
  t.match(stdout, TOKEN, 'the token alone on a line')
  t.notMatch(stderr, stdout.trim())
  t.notOk(existsSync(join(directory, 'data', 'postgresql', 'postmaster.pid')), 'the database ended with it')
  t.notOk(existsSync(join(directory, 'data', 'waybill.pid')), 'and the data directory was given back')

  const running = await server(t, directory)
  t.equal(await status(running.url, stdout), 200)
  const [line = ''] = (await readFile(join(directory, 'data', 'postgresql', 'postmaster.pid'), 'utf8')).split(
    '\n',
  )
  const second = await waybill([...FIRST.slice(0, -1), 'second'], { directory })
  t.equal(second.code, 0, second.stderr)
  t.equal(await status(running.url, second.stdout), 200, 'it is accepted at once')
  t.ok(isAlive(Number(line)), 'and the database of the server runs on')

  const headers = { authorization: `Bearer ${stdout.trim()}` }
  const answer = await fetch(`${running.url}/api/v1/api-tokens`, { headers })
  const { data } = (await answer.json()) as { data: { api_tokens: object[] } }
  t.match(data.api_tokens, [
    { service_account: 'ops', label: 'second', state: 'active' },
    { service_account: 'ops', label: 'first', state: 'active' },
  ])
})

t.test('a release build without anybody says how to make a first token, and then no more', async (t) => {
  const directory = await temporaryDirectory(t)
  const running = await server(t, directory)
  const hint = () => running.output.some((line) => line.includes('npx waybill token create'))
  await until(hint)
  t.equal(await status(running.url, 'wbl_nobody'), 401)
  const { stdout } = await waybill(FIRST, { directory })
  t.equal(await status(running.url, stdout), 200)
  await running.stop()
  const again = await server(t, directory)
  // The line would come right after the one that tells the address, and the exit flushes both.
  await again.stop()
  t.notOk(again.output.some((line) => line.includes('token create')))
})

t.test('with a database of its own', async (t) => {
  const { base, client, database } = await startApi(t, { build: 'release' })
  const directory = await temporaryDirectory(t)
  const env = { DATABASE_URL: database.url }
  const run = (...args: string[]) => waybill(args, { directory, env })
  const url = base.replace('/api/v1', '')

  t.test('a missing service account is made as a local one', async (t) => {
    const { code, stdout, stderr } = await run(...FIRST, '--expires-in-days', '7')
    t.equal(code, 0, stderr)
    t.match(stdout, TOKEN)
    const headers = { authorization: `Bearer ${stdout.trim()}` }
    const { data } = await client.get('/service-accounts', { headers })
    t.match(data['service_accounts'], [{ name: 'ops', kind: 'local', enabled: true }])
    const listed = await client.get('/api-tokens', { headers })
    const [token] = listed.data['api_tokens'] as { created_at: string; expires_at: string }[]
    t.equal(Date.parse(token?.expires_at ?? '') - Date.parse(token?.created_at ?? ''), 7 * 86_400_000)
    t.notOk(existsSync(join(directory, 'data')), 'and no data directory is made')
  })

  t.test('several at once are all made', async (t) => {
    const made = await Promise.all(
      [1, 2, 3].map((n) => run('token', 'create', '--service-account', 'new', '--label', `${n}`)),
    )
    for (const { code, stdout, stderr } of made) {
      t.equal(code, 0, stderr)
      t.equal(await status(url, stdout), 200)
    }
    t.equal(new Set(made.map(({ stdout }) => stdout)).size, 3)
  })

  t.test('what the API refuses is refused in one line', async (t) => {
    const create = (account: string, label: string, ...more: string[]) =>
      waybillHere(['token', 'create', '--service-account', account, '--label', label, ...more], {
        directory,
        env,
      })
    const refusals = [
      [await create('Ops', 'x'), /^waybill: service_account: may have lower case letters/],
      [await create('ops', ''), /^waybill: label: must have at least 1 character/],
      [await create('ops', 'x'.repeat(65)), /^waybill: label: must have at most 64 characters/],
      [
        await create('ops', 'x', '--expires-in-days', '366'),
        /^waybill: expires_in_days: must be at most 365/,
      ],
      [await create('ops', 'x', '--expires-in-days', '0'), /^waybill: expires_in_days: must be at least 1/],
      [
        await create('ops', 'x', '--expires-in-days', 'soon'),
        /^waybill: expires_in_days: must be a (whole )?number/,
      ],
    ] as const
    for (const [{ code, stdout, stderr }, text] of refusals) {
      t.match({ code, stdout }, { code: 1, stdout: '' })
      t.match(stderr, text)
      t.equal(stderr.trim().split('\n').length, 1)
    }
    await database.pool.query("update service_account set enabled = false where name = 'new'")
    t.match(await create('new', 'x'), { code: 1, stderr: /^waybill: service_account: .*disabled/ })
  })
})
