import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { plainCommand, temporaryDirectory } from '../support/processes.ts'

/** The package as npm installs it: built, packed, and run from a folder of its own. */
const PROJECT = fileURLToPath(new URL('../../', import.meta.url))
const execute = promisify(execFile)
const run = (command: string, args: readonly string[], cwd: string) =>
  execute(...plainCommand(command, args), { cwd })

t.setTimeout(900_000)

void t.test('the command of the installed package runs the service', async (t) => {
  const directory = await temporaryDirectory(t)
  await run('npm', ['pack', '--pack-destination', directory], PROJECT)
  const archive = (await readdir(directory)).find((name) => name.endsWith('.tgz'))
  await writeFile(join(directory, 'package.json'), '{"name":"somebody","version":"1.0.0","private":true}')
  await run('npm', ['install', '--no-audit', '--no-fund', `./${archive}`], directory)
  const installed = join(directory, 'node_modules', 'waybill')
  await t.rejects(access(join(installed, 'main.ts')), 'it holds what was built, not the source')

  const command = join(directory, 'node_modules', '.bin', 'waybill')
  t.match(await run(command, ['--version'], directory), { stdout: /^waybill \d+\.\d+\.\d+\n$/ })
  t.match(await run(command, ['--help'], directory), { stdout: /^Usage: waybill/ })
  await t.rejects(run(command, ['dance'], directory), { code: 2, stderr: /Unknown command: dance/ })

  const home = join(directory, 'home')
  await mkdir(home)
  const env = { ...process.env, HTTP_PORT: '0', HTTP_HOST: '127.0.0.1', LOG_LEVEL: 'warn' }
  const service = spawn(...plainCommand(command, []), {
    cwd: home,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(async () => service.kill('SIGKILL'))
  const lines = createInterface({ input: service.stdout })
  const [line] = (await once(lines, 'line')) as [string]
  const url = /listens on (\S+)/.exec(line)?.[1]
  t.match(await (await fetch(`${url}/api/v1/health`)).json(), { status: 'healthy' })
  t.equal((await fetch(`${url}/api/v1/organizations`)).status, 401, 'and a release build is not open')
  service.kill('SIGTERM')
  const [code] = (await once(service, 'exit')) as [number | null]
  t.equal(code, 0)
})
