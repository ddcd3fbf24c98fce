import t from 'tap'
import { startApi } from '../support/api.ts'
import { waybill, waybillHere } from '../support/command.ts'
import { temporaryDirectory } from '../support/processes.ts'
import { TestIssuer } from '../support/test-issuer.ts'

/** `waybill user …`: users have no endpoint (specification, section 1). */

t.setTimeout(240_000)

const PASSWORD = 'correct horse battery staple'

t.test('users are managed on the command line', async (t) => {
  const issuer = await TestIssuer.start(t)
  const { client, database, identity } = await startApi(t)
  const directory = await temporaryDirectory(t)
  const env = { DATABASE_URL: database.url }
  const run = (args: string, input = '') =>
    waybillHere(['user', ...args.split(' ')], { directory, env, input })
  const accepted = async (args: string, input = ''): Promise<string> => {
    const { code, stdout, stderr } = await run(args, input)
    t.equal(code, 0, `${args} ${stderr}`)
    return stdout
  }
  const refused = async (args: string, text: RegExp, input = ''): Promise<void> => {
    const { code, stdout, stderr } = await run(args, input)
    t.match({ code, stdout }, { code: 1, stdout: '' }, args)
    t.match(stderr, text)
    t.equal(stderr.trim().split('\n').length, 1)
  }
  await client.create('/oidc-providers', {
    name: 'login',
    issuer_url: issuer.url,
    sign_in: false,
    api_audience: 'waybill',
  })
  const status = async (subject: string): Promise<number> => {
    const token = await issuer.token({ claims: { sub: subject } })
    return (await client.get('/organizations', { headers: { authorization: `Bearer ${token}` } })).status
  }

  t.test('add, with a password from standard input', async (t) => {
    const added = await waybill(['user', 'add', 'anna@example.com'], {
      directory,
      env,
      input: `${PASSWORD}\n`,
    })
    t.same(added, { code: 0, stdout: '', stderr: 'User anna@example.com added.\n' })
    t.equal((await identity.users.byPassword('anna@example.com', PASSWORD))?.name, 'anna@example.com')
    t.equal(await identity.users.byPassword('anna@example.com', `${PASSWORD}!`), null)
    t.equal(await identity.users.byPassword('nobody', PASSWORD), null)
    const { rows } = await database.pool.query('select * from user_account')
    t.notMatch(JSON.stringify(rows), 'battery')
    t.match(rows, [{ password: /^\$scrypt\$ln=17,r=8,p=1\$/ }])
  })

  t.test('add refuses a taken name, a name or a password that cannot be', async () => {
    await refused('add anna@example.com', /^waybill: A user anna@example\.com exists already/, PASSWORD)
    await refused('add Anna', /^waybill: name: may have lower case letters/, PASSWORD)
    await refused('add system', /^waybill: name: must not be one of system/, PASSWORD)
    await refused('add sa:erp', /^waybill: name: may have/, PASSWORD)
    await refused('add berta', /^waybill: The password must have at least 15 characters/, 'too short\n')
    await refused('add berta', /^waybill: The password must have at least 15 characters/)
    await refused('add berta', /^waybill: The password must have at most 256/, 'x'.repeat(5_000))
  })

  t.test('add, with an identity at a provider', async (t) => {
    t.equal(await status('carla'), 401)
    await accepted(`add carla --issuer ${issuer.url} --subject carla`)
    t.equal(await status('carla'), 200)
    const identityOf = (subject: string) => `--issuer ${issuer.url} --subject ${subject}`
    await refused(`add dora ${identityOf('carla')}`, /^waybill: The identity is that of the user carla/)
    await refused(
      `add dora --issuer ${issuer.url}/ --subject dora`,
      /^waybill: issuer: is the issuer URL of no/,
    )
    await refused(`add dora --issuer ${issuer.url}`, /^waybill: subject: is required/)
    await refused(`add dora ${identityOf('sa:erp')}`, /^waybill: subject: must not be one of/)
  })

  t.test('disable and enable count from the next request', async (t) => {
    await accepted('disable carla')
    t.equal(await status('carla'), 401)
    await accepted('enable carla')
    t.equal(await status('carla'), 200)
    await accepted('disable anna@example.com')
    t.equal(await identity.users.byPassword('anna@example.com', PASSWORD), null)
    await refused('disable nobody', /^waybill: There is no user nobody/)
  })

  t.test(
    'list prints name, state, ways to sign in and the recorded subject, with tabs between',
    async (t) => {
      t.same((await accepted('list')).split('\n'), [
        'anna@example.com\tdisabled\tpassword\tanna@example.com',
        `carla\tenabled\t${issuer.url}\tcarla`,
        '',
      ])
    },
  )

  t.test('set-password replaces the password', async (t) => {
    await accepted('enable anna@example.com')
    await accepted('set-password anna@example.com', 'another one of many characters\r\n')
    t.equal(await identity.users.byPassword('anna@example.com', PASSWORD), null)
    t.ok(await identity.users.byPassword('anna@example.com', 'another one of many characters'))
    await refused('set-password nobody', /^waybill: There is no user nobody/, PASSWORD)
  })

  t.test('link gives a user an identity, in place of one that it has', async (t) => {
    t.equal(await status('4711'), 401)
    await accepted(`link anna@example.com --issuer ${issuer.url} --subject 4711`)
    t.equal(await status('4711'), 200)
    await accepted(`link anna@example.com --issuer ${issuer.url} --subject 4712`)
    t.equal(await status('4711'), 401)
    t.equal(await status('4712'), 200)
    await refused(
      `link carla --issuer ${issuer.url} --subject 4712`,
      /^waybill: The identity is that of the user/,
    )
    t.match(await accepted('list'), new RegExp(`anna@example.com\tenabled\tpassword,${issuer.url}\t4712\n`))
  })
})
