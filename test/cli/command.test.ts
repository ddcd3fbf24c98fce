import t from 'tap'
import { parseCommand } from '../../api/cli/command.ts'
import { waybill } from '../support/command.ts'
import { temporaryDirectory } from '../support/processes.ts'

t.setTimeout(240_000)

t.test('the command line', async (t) => {
  const directory = await temporaryDirectory(t)
  const run = (...args: string[]) => waybill(args, { directory })

  t.test('--version and --help print and end', async (t) => {
    t.match(await run('--version'), { code: 0, stdout: /^waybill \d+\.\d+\.\d+\n$/, stderr: '' })
    const help = await run('--help')
    t.match(help, { code: 0, stderr: '' })
    for (const command of ['start', 'token create', 'user add', 'user link', 'secret rotate'])
      t.match(help.stdout, command)
    t.same(await run('token', 'create', '--help'), help)
  })

  t.test('what it does not know is a mistake with exit code 2, before anything happens', async (t) => {
    const mistake = await run('token', 'create', '--service-account', 'ops')
    t.match(mistake, { code: 2, stdout: '' })
    t.match(mistake.stderr, /^This command takes: waybill token create .*\n\nUsage: waybill/)
    for (const line of [
      'dance',
      'token',
      'token dance',
      'token create',
      'token create --service-account ops --label first more',
      'token create --service-account ops --label first --secret x',
      'user add',
      'user add anna --password hidden',
      'user link anna',
      'user list anna',
      'secret rotate now',
      'start now',
    ])
      t.equal(parseCommand(line.split(' ')).kind, 'mistake', line)
  })

  t.test('a wrong setting is one line that names it', async (t) => {
    const env = { DATABASE_URL: 'mysql://localhost' }
    const { code, stdout, stderr } = await waybill(['user', 'list'], { directory, env })
    t.match({ code, stdout }, { code: 1, stdout: '' })
    t.match(stderr, /^waybill: DATABASE_URL: .*\n$/)
  })

  t.test('an unreachable database is one line without its password', async (t) => {
    const env = { DATABASE_URL: 'postgres://waybill:hidden@127.0.0.1:1/waybill' }
    const { code, stderr } = await waybill(['user', 'list'], { directory, env })
    t.equal(code, 1)
    t.match(stderr, /^waybill: .*127\.0\.0\.1:1.*\n$/)
    t.notMatch(stderr, /hidden/)
  })
})
