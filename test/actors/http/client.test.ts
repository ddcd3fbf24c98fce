import { Readable } from 'node:stream'
import t from 'tap'
import { HttpClient } from '../../../actors/http/client.ts'
import { startWebServer, take } from './web-server.ts'

/** What is waited for of an answer, and what is not. */

t.setTimeout(300_000)

t.test('an answer is its status: a body that does not end is not waited for', async (t) => {
  const web = await startWebServer(t)
  const client = new HttpClient(1)
  t.teardown(() => client.close())
  web.behave('/', async (request, response, received) => {
    await take(request, received)
    response.writeHead(202, { 'content-length': '10' }).write('ok')
  })
  const answer = await client.send({
    method: 'POST',
    url: `${web.url}/`,
    headers: [],
    bodyBytes: 4,
    body: Readable.from([Buffer.from('body')], { objectMode: false }),
    connectTimeoutMs: 3_600_000,
    responseTimeoutMs: 3_600_000,
    signal: new AbortController().signal,
  })
  t.match(answer, { status: 202, beginning: 'ok' })
})
