import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import type { Teardown } from '../support/database.ts'
import { reservePort, type ReservedPort } from '../support/reserved-port.ts'
import { bothWays } from './openas2/combinations.ts'
import { Exchange } from './openas2/exchange.ts'
import { digestOf } from './site.ts'

/** OpenAS2 sends again what was not confirmed: under another Message-ID, unless it is told to keep the first one. */

const FILE_NAME = 'orders.edi'
const CONTENT = Buffer.from("UNB+UNOC:3+ONE+OTHER'\r\n".repeat(20))
const secure = { signature: 'sha256', encryption: 'aes256', receipt: 'signed' } as const
const sameId = { resends: 20, attributes: { resend_requires_new_message_id: 'false' } }

/** Passes connections on, but ends the first one where its answer would begin. */
async function losingFirstAnswer(t: Teardown, to: ReservedPort): Promise<string> {
  const sockets = new Set<Socket>()
  let lost = false
  const server = createServer((client) => {
    const upstream = connect(to)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.once('close', () => sockets.delete(socket))
    }
    client.pipe(upstream)
    const pass = (chunk: Buffer): void => void client.write(chunk)
    upstream.once('data', (chunk) => {
      if (lost) {
        pass(chunk)
        upstream.on('data', pass)
        return
      }
      lost = true
      upstream.destroy()
      client.destroy()
    })
    upstream.once('end', () => client.end())
    client.once('close', () => upstream.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    sockets.forEach((socket) => socket.destroy())
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/as2`
}

void t.test('what OpenAS2 sends again', async (t) => {
  const place = await reservePort()
  const partnerUrl = await losingFirstAnswer(t, place)
  const anotherWay = await losingFirstAnswer(t, place)
  const repeating = (name: string, partnership: object, verifyWith: 'own' | 'stranger' = 'own') => {
    const { partnership: usual = {}, ...rest } = bothWays(name, secure)
    return { ...rest, verifyWith, partnership: { ...usual, ...partnership } }
  }
  const exchange = await Exchange.start(
    t,
    [
      repeating('refused', { resends: 1 }, 'stranger'),
      repeating('mended', { resends: 20 }, 'stranger'),
      repeating('mended-same-id', sameId, 'stranger'),
      repeating('lost-answer', { ...sameId, partnerUrl }),
      repeating('lost-answer-new-id', { resends: 1, partnerUrl: anotherWay }),
    ],
    { place },
  )
  const drop = (name: string) => exchange.openAs2.drop(name, FILE_NAME, CONTENT)
  await Promise.all(['refused', 'mended', 'mended-same-id', 'lost-answer', 'lost-answer-new-id'].map(drop))
  await Promise.all(
    ['mended', 'mended-same-id'].map(async (name) => {
      await exchange.settledFrom(name)
      await exchange.mend(name)
    }),
  )

  await t.test(
    'a message refused twice is two refused messages, each under its own Message-ID',
    async (t) => {
      const messages = await exchange.settledFrom('refused', 2)
      t.match(messages, [{ status: 'Refused' }, { status: 'Refused' }])
      t.equal(new Set(messages.map(({ protocols }) => protocols.as2?.message_id)).size, 2)
      await exchange.givenUpByOpenAs2('refused')
    },
  )

  for (const name of ['mended', 'mended-same-id']) {
    const which = name === 'mended' ? 'another' : 'the same'
    await t.test(
      `what was refused is taken under ${which} Message-ID when the profile is mended`,
      async (t) => {
        // Until the profile was mended, it may have been sent, and refused, more than once.
        const messages = await exchange.settledFrom(name, 2, 'Delivered')
        t.ok(messages.slice(0, -1).every(({ status }) => status === 'Refused'))
        const ids = messages.map(({ protocols }) => protocols.as2?.message_id)
        t.equal(new Set(ids).size, name === 'mended' ? messages.length : 1)
        t.equal(digestOf(await exchange.written(name, FILE_NAME)), digestOf(CONTENT))
        await exchange.receiptRecord(ids.at(-1) ?? '')
      },
    )
  }

  await t.test(
    'a repeat after a lost answer is no second message and gets the receipt made before',
    async (t) => {
      const id = (await exchange.settledFrom('lost-answer'))[0]?.id ?? ''
      const message = await exchange.messageWith(id, 'a repeat', ({ history }) =>
        history.some(({ kind }) => kind === 'duplicate_received'),
      )
      const record = await exchange.receiptRecord(message.protocols.as2?.message_id ?? '')
      t.equal(record.mic?.split(',')[0], message.protocols.as2?.mic)
      t.match(await exchange.messagesFrom('lost-answer'), [{ id, status: 'Delivered' }])
      t.equal((await exchange.messagesFrom('lost-answer')).length, 1)
    },
  )

  await t.test('a repeat under another Message-ID cannot be told from a second message', async (t) => {
    const messages = await exchange.settledFrom('lost-answer-new-id', 2)
    t.match(messages, [{ status: 'Delivered' }, { status: 'Delivered' }])
    await exchange.receiptRecord(messages[1]?.protocols.as2?.message_id ?? '')
  })
})
