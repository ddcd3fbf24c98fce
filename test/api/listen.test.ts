import { createServer } from 'node:net'
import { once } from 'node:events'
import t from 'tap'
import { authenticator } from '../../api/rest/caller.ts'
import { buildServer, listen, ListenError } from '../../api/rest/server.ts'
import { createLog } from '../../runtime/log.ts'
import type { Teardown } from '../support/database.ts'

const server = (t: Teardown) => {
  const config = { allowedOrigins: [], publicUrl: 'http://localhost' } as const
  const authenticate = authenticator({ build: 'developer', publicUrl: 'http://localhost' }, () =>
    Promise.reject(new Error('No token is sent here')),
  )
  const built = buildServer({
    endpoints: [],
    authenticate,
    config,
    version: '0.0.0',
    log: createLog('silent'),
  })
  t.teardown(async () => (await built).close())
  return built
}

t.test('without a host the server listens on all interfaces and tells its port', async (t) => {
  const port = await listen(await server(t), { port: 0, host: undefined })
  t.equal((await fetch(`http://127.0.0.1:${port}/api/v1/openapi.yaml`)).status, 200)
})

t.test('a port in use and a foreign address are one sentence that names the setting', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const { port } = other.address() as { port: number }
  await t.rejects(listen(await server(t), { port, host: '127.0.0.1' }), {
    name: 'ListenError',
    message: `HTTP_PORT: the port ${port} is in use by another program`,
  })
  const foreign = listen(await server(t), { port: 0, host: '192.0.2.1' })
  await t.rejects(foreign, { message: 'HTTP_HOST: this machine has no address 192.0.2.1' })
  await foreign.catch((error: unknown) => t.ok(error instanceof ListenError))
})
