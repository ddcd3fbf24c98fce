import t from 'tap'
import { until } from '../../support/processes.ts'
import { answering, header, startWebServer, take } from '../http/web-server.ts'
import { LIMIT_MS, startNotifying } from './notifying.ts'

/** What becomes of a post while its instance stops. */

// One of the stops takes as long as a stop may.
t.setTimeout(900_000)

const notifying = await startNotifying(t)
const web = await startWebServer(t)

t.test('a post under way is finished by a stop', async (t) => {
  await notifying.configure(t, 'finished', { url: `${web.url}/finished` })
  const held = Promise.withResolvers<void>()
  web.behave('/finished', async (request, response, received) => {
    await take(request, received)
    await held.promise
    response.end()
  })
  await notifying.start('finished')
  await notifying.raise('a')
  await until(() => web.received('/finished').length === 1, LIMIT_MS)
  const stopped = notifying.stop('finished')
  await until(
    () => notifying.api.supervisor.find('notification-webhook', 'finished')?.status === 'stopping',
    LIMIT_MS,
  )
  await notifying.raise('b')
  held.resolve()
  await stopped
  await notifying.untilOutcomes('finished', 'delivered', 'queued')
  t.equal(web.received('/finished').length, 1)
})

t.test('a post that does not end is cut off by a stop, and made again after the next start', async (t) => {
  await notifying.configure(t, 'cut-off', { url: `${web.url}/cut-off` })
  web.behave('/cut-off', (request, _response, received) => take(request, received))
  await notifying.start('cut-off')
  await notifying.raise('a')
  await until(() => web.received('/cut-off').length === 1, LIMIT_MS)
  await notifying.stop('cut-off')
  const [row] = await notifying.untilOutcomes('cut-off', 'queued')
  t.match(row, { last_error: /was stopped/ })
  web.behave('/cut-off', answering(200))
  await notifying.start('cut-off')
  await notifying.untilOutcomes('cut-off', 'delivered')
  const [first, second] = web.received('/cut-off')
  t.equal(header(second, 'webhook-id'), header(first, 'webhook-id'))
})
