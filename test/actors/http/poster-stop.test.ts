import t from 'tap'
import { until } from '../../support/processes.ts'
import { startPosting } from './posting.ts'
import { answering, header, startWebServer, take } from './web-server.ts'

const LIMIT_MS = 120_000
// The stop waits as long as a stop may.
t.setTimeout(900_000)

t.test('a request that does not end is cut off by a stop, and made again after the next start', async (t) => {
  t.setTimeout(900_000)
  const posting = await startPosting(t)
  const web = await startWebServer(t)
  const { client } = posting.api
  await posting.start('stopped', { url: `${web.url}/stopped` })
  web.behave('/stopped', (request, _response, received) => take(request, received))
  const id = await posting.accept('stopped', Buffer.from('payload'))
  await until(() => web.received('/stopped').length === 1, LIMIT_MS)
  const stopped = await client.post('/services/http-poster/stopped/stop')
  t.match(stopped.data, { status: 'stopped', error: null })
  t.match(await posting.delivery(id), { state: 'queued', last_error: /was stopped/ })
  web.behave('/stopped', answering(200))
  t.equal((await client.post('/services/http-poster/stopped/start')).status, 200)
  await posting.untilIn('stopped', id, 'delivered')
  const [first, second] = web.received('/stopped')
  t.equal(header(second, 'webhook-id'), header(first, 'webhook-id'))
})
