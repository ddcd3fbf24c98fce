import { once } from 'node:events'
import { access, mkdir, readFile } from 'node:fs/promises'
import { createConnection, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { isAlive, isRoot, temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

/** Starts a process that must refuse: answers its exit code and every line of it. */
async function refused(t: Test, directory: string, env: Readonly<Record<string, string>>) {
  const { child, output } = await Waybill.spawn({ directory, env })
  t.teardown(async () => child.kill('SIGKILL'))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, lines: output.filter((line) => !line.startsWith('{')) }
}

async function started(t: Test): Promise<{ directory: string; waybill: Waybill }> {
  const directory = await temporaryDirectory(t)
  const waybill = await Waybill.start({ directory, env: { LOG_LEVEL: 'info' } })
  t.teardown(async () => waybill.stop())
  return { directory, waybill }
}

async function databasePid(directory: string): Promise<number> {
  const text = await readFile(join(directory, 'data', 'postgresql', 'postmaster.pid'), 'utf8')
  return Number.parseInt(text, 10)
}

/** A request whose body never comes: as long as it is open, the process that takes it does not end in order. */
async function openRequest(t: Test, waybill: Waybill): Promise<Socket> {
  const { hostname, port } = new URL(waybill.url)
  const socket = createConnection(Number(port), hostname)
  t.teardown(async () => socket.destroy())
  socket.on('error', () => undefined)
  socket.write(
    `POST /api/v1/organizations HTTP/1.1\r\nHost: ${hostname}\r\nContent-Type: application/json\r\n` +
      'Content-Length: 100\r\nExpect: 100-continue\r\n\r\n',
  )
  const [answer] = (await once(socket, 'data')) as [Buffer]
  t.match(answer.toString(), /^HTTP\/1\.1 100 /, 'the request is in hand')
  return socket
}

/** Ends what a process that ended at once left running, before its files are removed. */
async function endDatabase(pid: number): Promise<void> {
  if (isAlive(pid)) process.kill(pid, 'SIGQUIT')
  await until(() => !isAlive(pid))
}

void t.test('a start without settings serves a healthy API and says where it listens', async (t) => {
  const { waybill } = await started(t)
  const health = await fetch(`${waybill.url}/api/v1/health`)
  t.match(await health.json(), { status: 'healthy', database: 'up' })
  t.match(waybill.output.join('\n'), /Waybill \S+ listens on http:\/\/\S+/)
})

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  void t.test(`${signal} ends the process in order, the database with it`, async (t) => {
    const { directory, waybill } = await started(t)
    const database = await databasePid(directory)
    t.equal(await waybill.stop(signal), 0)
    t.notOk(isAlive(database))
    const log = waybill.output.join('\n')
    t.notMatch(log, /Error|error/, log)
  })
}

void t.test('a second signal ends the process at once', async (t) => {
  const { directory, waybill } = await started(t)
  const database = await databasePid(directory)
  await openRequest(t, waybill)
  const ended = waybill.stop('SIGTERM')
  // Not the same signal again: two that are pending at once count as one.
  process.kill(waybill.pid, 'SIGINT')
  t.equal(await ended, 1)
  await endDatabase(database)
})

/** What comes within this time of a signal is its echo. */
const ECHO_MS = 1_000

/** Sends SIGINT, and once more when it is heard. Answers the exit code, and how long the process had for both. */
async function interruptTwice(t: Test): Promise<{ directory: string; code: number | null; tookMs: number }> {
  const { directory, waybill } = await started(t)
  const database = await databasePid(directory)
  const request = await openRequest(t, waybill)
  const sentAtMs = performance.now()
  const ended = waybill.stop('SIGINT')
  await until(() => waybill.output.some((line) => line.includes('stopping')))
  process.kill(waybill.pid, 'SIGINT')
  request.destroy()
  const code = await ended
  const tookMs = performance.now() - sentAtMs
  await endDatabase(database)
  return { directory, code, tookMs }
}

void t.test('the echo of a signal, as npm makes it, is not a second one', async (t) => {
  let outcome = await interruptTwice(t)
  // On a machine so busy that the echo may have come too late, that says nothing.
  for (let tries = 1; tries < 10 && outcome.code !== 0 && outcome.tookMs >= ECHO_MS; tries += 1)
    outcome = await interruptTwice(t)
  const { code, directory } = outcome
  t.equal(code, 0)
  await t.rejects(access(join(directory, 'data', 'waybill.pid')), 'the data directory was given back')
})

void t.test('after kill -9 the next start recovers by itself, with the records as they were', async (t) => {
  const { directory, waybill } = await started(t)
  await waybill.request('POST', '/organizations', { name: 'acme' })
  await waybill.kill()
  const again = await Waybill.start({ directory })
  t.teardown(async () => again.stop())
  const { organizations } = await again.request<{ organizations: { name: string }[] }>(
    'GET',
    '/organizations',
  )
  t.match(organizations, [{ name: 'acme' }])
})

void t.test(
  'after kill -9 of the process and of its database the next start recovers by itself',
  async (t) => {
    const { directory, waybill } = await started(t)
    await waybill.request('POST', '/organizations', { name: 'acme' })
    const database = await databasePid(directory)
    await waybill.kill()
    process.kill(database, 'SIGKILL')
    await until(() => !isAlive(database))
    const again = await Waybill.start({ directory })
    t.teardown(async () => again.stop())
    t.equal((await again.request<{ total: number }>('GET', '/organizations')).total, 1)
  },
)

void t.test('a second process on the same data directory is refused', async (t) => {
  const { directory, waybill } = await started(t)
  const { code, lines } = await refused(t, directory, {})
  t.equal(code, 1)
  t.equal(lines.length, 1)
  t.match(lines[0], new RegExp(`data directory .* is in use by another process \\(pid ${waybill.pid}\\)`))
  t.ok((await fetch(`${waybill.url}/api/v1/health`)).ok)
})

void t.test('a port in use is one clear line', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => server.close())
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const { code, lines } = await refused(t, await temporaryDirectory(t), { HTTP_PORT: String(port) })
  t.equal(code, 1)
  t.same(lines, [`waybill: HTTP_PORT: the port ${port} is in use by another program`])
})

void t.test('an unreachable database is one clear line without its password', async (t) => {
  const env = { DATABASE_URL: 'postgres://waybill:hidden@127.0.0.1:1/waybill' }
  const { code, lines } = await refused(t, await temporaryDirectory(t), env)
  t.equal(code, 1)
  t.equal(lines.length, 1)
  t.match(lines[0], /^waybill: .*127\.0\.0\.1:1/)
  t.notMatch(lines[0], /hidden/)
})

void t.test('an invalid variable is one clear line that names it', async (t) => {
  const { code, lines } = await refused(t, await temporaryDirectory(t), { HTTP_PORT: '99999' })
  t.equal(code, 1)
  t.equal(lines.length, 1)
  t.match(lines[0], /^waybill: HTTP_PORT: /)
})

void t.test('a developer build that would listen to others is refused', async (t) => {
  const { code, lines } = await refused(t, await temporaryDirectory(t), { HTTP_HOST: '0.0.0.0' })
  t.equal(code, 1)
  t.match(lines, [/^waybill: HTTP_HOST: .*loopback/])
})

void t.test('a data directory without write permission is one clear line', async (t) => {
  const directory = await temporaryDirectory(t)
  const locked = join(directory, 'locked')
  await mkdir(locked, { mode: 0o555 })
  // Root may write everywhere but where the kernel itself refuses.
  const data = isRoot ? '/proc/waybill' : join(locked, 'data')
  const { code, lines } = await refused(t, directory, { DATA_DIRECTORY: data })
  t.equal(code, 1)
  t.match(lines, [/^waybill: The data directory \S+ cannot be made: /])
})
