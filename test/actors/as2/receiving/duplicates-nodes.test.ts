import { createHash } from 'node:crypto'
import { request } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { composeMessage } from '../../../../actors/as2/protocol/compose.ts'
import { setUpLoop, startLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent } from '../../../support/as2-correspondent.ts'
import { createTestDatabase } from '../../../support/database.ts'
import { temporaryDirectory, until } from '../../../support/processes.ts'
import { reservePort } from '../../../support/reserved-port.ts'
import { Waybill } from '../../../support/waybill.ts'

// Two nodes of one service, each with a receiver of its own before the same database.
t.setTimeout(300_000)

const TIMES = 50

void t.test('the same message to two nodes at once is one message with one receipt', async (t) => {
  const { url } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const start = async (node: string): Promise<Waybill> => {
    const waybill = await Waybill.start({
      directory,
      env: {
        DATABASE_URL: url,
        DATA_DIRECTORY: join(directory, `data-${node}`),
        SECRET_KEY: 'the key of all the nodes',
        WAYBILL_NODE: node,
      },
    })
    t.teardown(async () => waybill.kill())
    return waybill
  }
  const one = await start('one')
  const loop = await setUpLoop(one, { directory })
  await startLoop(one)
  const two = await start('two')
  // On one machine two nodes cannot listen on one port: the second has a receiver beside the first's.
  const place = await reservePort()
  await two.request('POST', '/plugins/configs?type=as2-receiver', { name: 'second', ...place })
  await two.request('POST', '/routes', { source_plugin: 'second', target_plugin: 'writer' })
  await two.request('POST', '/services/as2-receiver/second/start')
  const urls = [loop.receiverUrl, `http://${place.host}:${place.port}/as2`]

  const acme = new As2Correspondent(one, loop)
  const message = acme.message()
  const { headers, body } = await composeMessage(message)
  const digests = await Promise.all(
    Array.from({ length: 2 * TIMES }, async (_, at) => {
      const answer = await post(urls[at % 2] ?? '', headers, body)
      return `${answer.status} ${createHash('sha256').update(answer.body).digest('hex')}`
    }),
  )
  t.equal(new Set(digests).size, 1, 'every answer is the stored receipt')
  t.match(digests[0], /^200 /)
  await until(async () => (await acme.recordsOf(message.messageId))[0]?.status === 'Delivered')
  const [record, ...others] = await acme.recordsOf(message.messageId)
  t.same(others, [])
  const repeats = record?.history.filter(({ kind }) => kind === 'duplicate_received') ?? []
  t.equal(repeats.length, 2 * TIMES - 1)
})

interface Posted {
  readonly status: number
  readonly body: Buffer
}

/** Each over a connection of its own, so that they come at once. */
function post(url: string, headers: ReadonlyArray<readonly [string, string]>, body: Buffer): Promise<Posted> {
  return new Promise((resolve, reject) => {
    const fields = [...headers, ['Content-Length', String(body.length)] as const].flat()
    const sent = request(url, {
      method: 'POST',
      agent: false,
      headers: ['Host', new URL(url).host, ...fields],
    })
    sent.on('error', reject)
    sent.on('response', (response) => {
      buffer(response).then((answer) => resolve({ status: response.statusCode ?? 0, body: answer }), reject)
    })
    sent.end(body)
  })
}
