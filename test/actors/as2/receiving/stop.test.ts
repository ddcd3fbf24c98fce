import { once } from 'node:events'
import { request, type ClientRequest, type IncomingMessage } from 'node:http'
import t, { type Test } from 'tap'
import { composeMessage } from '../../../../actors/as2/protocol/compose.ts'
import { openLoop } from '../../../support/as2-loop.ts'
import { largeOutgoing, payloadsOf, storedNames, until } from './large-messages.ts'

// The instance that stops and its thread are ended after 30 s; so long its work in hand has.
t.setTimeout(300_000)

const { directory, waybill, loop } = await openLoop(t)

const statusOf = async (): Promise<string | undefined> => {
  const { services } = await waybill.request<{ services: { name: string; status: string }[] }>(
    'GET',
    '/services?limit=100',
  )
  return services.find(({ name }) => name === 'receiver')?.status
}

/** Begins to send a message, half of which comes later or not at all. */
async function begin(t: Test): Promise<{ sending: ClientRequest; rest: Buffer }> {
  const { headers, body } = await composeMessage(largeOutgoing(loop))
  const sending = request(loop.receiverUrl, {
    method: 'POST',
    agent: false,
    headers: { ...Object.fromEntries(headers), 'Content-Length': String(body.length) },
  })
  sending.on('error', () => undefined)
  t.teardown(() => sending.destroy())
  const half = body.length / 2
  sending.write(body.subarray(0, half))
  return { sending, rest: body.subarray(half) }
}

t.test('an instance that stops gives the messages that come in nearly 30 s', async (t) => {
  const [goesOn, stands] = [await begin(t), await begin(t)]
  const cut = new Promise((resolve) => stands.sending.once('close', resolve))
  // Of each a draft of its body, and one of what is inside.
  await until('both come in', async () => (await storedNames(payloadsOf(directory))).length >= 4)
  const beganMs = performance.now()
  const stopped = waybill.request('POST', '/services/as2-receiver/receiver/stop')
  await until('it stops', async () => (await statusOf()) === 'stopping')
  goesOn.sending.end(goesOn.rest)
  const [response] = (await once(goesOn.sending, 'response')) as [IncomingMessage]
  response.resume()
  t.equal(response.statusCode, 200, 'one that goes on is taken')
  await cut
  const lastedMs = performance.now() - beganMs
  t.ok(lastedMs >= 25_000, `one that does not is cut after ${lastedMs} ms`)
  await stopped
  t.equal(await statusOf(), 'stopped')
})
