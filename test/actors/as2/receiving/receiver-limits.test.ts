import { rename } from 'node:fs/promises'
import { request, type ClientRequest } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { composeMessage, type Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import { openLoop } from '../../../support/as2-loop.ts'
import { allMessages } from '../../../support/exchanged-messages.ts'
import { openConnection } from '../../../support/raw-http.ts'
import { largeOutgoing, notRepeating, payloadsOf, post, storedNames, until } from './large-messages.ts'

t.setTimeout(300_000)

const MAX_OF_PAIR = 12
const MAX_STREAMS = 16
const MAX_OF_STRANGERS = 4
const { directory, waybill, loop } = await openLoop(t)
const url = loop.receiverUrl
const payloads = payloadsOf(directory)

const drafts = async (): Promise<number> =>
  (await storedNames(payloads)).filter((name) => name.startsWith('.incoming/')).length

async function composed(changes: Partial<Outgoing> = {}) {
  const message = largeOutgoing(loop, changes)
  const { headers, body } = await composeMessage(message)
  return { messageId: message.messageId, headers, body }
}

interface Answer {
  readonly status: number
  readonly headers?: Iterable<readonly [string, string]>
}

type Headers = ReadonlyArray<readonly [string, string]>

const named = (headers: Headers, name: string, value: string): Headers =>
  headers.map(([each, old]) => [each, each === name ? value : old])

/** Begins to send a body that has no end yet; answers its status once it comes. */
function begin(t: Test, headers: Headers, part: Buffer): { sending: ClientRequest; status: Promise<number> } {
  const sending = request(url, {
    method: 'POST',
    agent: false,
    headers: { ...Object.fromEntries(headers), 'Content-Length': String(900 * 1024 * 1024) },
  })
  const status = new Promise<number>((resolve) => {
    sending.on('error', () => undefined)
    sending.on('response', (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
  })
  sending.write(part)
  t.teardown(() => sending.destroy())
  return { sending, status }
}

/** The other way round, as another pair. */
const ofGlobex = (): Promise<Awaited<ReturnType<typeof composed>>> => {
  const { acme, globex } = loop
  return composed({
    as2From: 'GLOBEX AS2',
    as2To: 'ACME-AS2',
    signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...globex.keys },
    encryption: { algorithm: 'AES256-CBC', keyTransport: 'PKCS1', certificate: acme.keys.certificate },
  })
}

const untilGone = (): Promise<void> => until('they are gone', async () => (await drafts()) === 0)

/**
 * The first answer that is busy, or that is not. By the drafts it cannot be told: one is gone a moment before its place is
 * free, and small files have drafts, too, while they are moved to their place.
 */
async function answerThat(is: 'busy' | 'not busy', send: () => Promise<Answer>): Promise<Answer> {
  let answer: Answer | null = null
  await until(`an answer is ${is}`, async () => {
    answer = await send()
    return (answer.status === 503) === (is === 'busy')
  })
  return answer ?? send()
}

t.test(
  'more large messages at once than have room are told to come again, and then they are taken',
  async (t) => {
    const [acme, globex] = [await composed(), await ofGlobex()]
    const fromAcme = (): Promise<Answer> => post(url, acme.headers, { body: acme.body })
    const fromGlobex = (): Promise<Answer> => post(url, globex.headers, { body: globex.body })
    // It is not opened, so there is one draft of each.
    const rubbish = Buffer.alloc(100_000, 'x')
    const begun: ClientRequest[] = []
    const fill = (headers: Headers, many: number): void => {
      for (let each = 0; each < many; each += 1) {
        const own = named(headers, 'Message-ID', `<${begun.length}@acme>`)
        begun.push(begin(t, own, rubbish).sending)
      }
    }
    // More than have a place: one that a short transfer keeps from its place is made up for.
    fill(acme.headers, MAX_STREAMS)
    await until('all of them come in', async () => (await drafts()) >= MAX_OF_PAIR)
    const busy = await answerThat('busy', fromAcme)
    t.equal(new Map(busy.headers).get('retry-after'), '30')
    t.equal((await fromGlobex()).status, 200, 'another pair has room')

    fill(globex.headers, MAX_OF_PAIR)
    await until('all places are taken', async () => (await drafts()) >= MAX_STREAMS)
    t.equal((await answerThat('busy', fromGlobex)).status, 503)
    for (const sending of begun) sending.destroy()
    await untilGone()
    t.equal((await answerThat('not busy', fromAcme)).status, 200)
  },
)

t.test('large messages of strangers do not keep those of partners out', async (t) => {
  const { headers, body } = await composed()
  const begun = Array.from({ length: MAX_STREAMS }, (_, each) =>
    begin(t, named(headers, 'AS2-From', `STRANGER${each}`), body.subarray(0, 100_000)),
  )
  let busy = 0
  for (const { status } of begun) void status.then((answered) => (busy += answered === 503 ? 1 : 0))
  await until('few have a place', async () => busy >= MAX_STREAMS - MAX_OF_STRANGERS)
  t.equal((await post(url, headers, { body })).status, 200)
  for (const { sending } of begun) sending.destroy()
  await untilGone()
})

t.test('of what strangers send only the beginning is taken, and they are told at once', async (t) => {
  const { messageId, headers } = await composed()
  const stranger = named(headers, 'AS2-From', 'STRANGER')
  const body = notRepeating(5 * 1024 * 1024)
  const answered = async (): Promise<Answer> => ({ status: await begin(t, stranger, body).status })
  t.equal((await answerThat('not busy', answered)).status, 200)
  const [record, ...others] = (await allMessages(waybill)).filter(
    ({ protocols }) => protocols.as2?.message_id === messageId,
  )
  t.same(others, [])
  t.match(record, { status: 'Refused', size_bytes: 4 * 1024 * 1024 })
  t.match(record?.history[0]?.text, /^No AS2 profiles for STRANGER .* Only the first 4194304 bytes/)
})

/** What becomes of a sender that waits to be told to send the body. */
function waiting(t: Test, headers: Headers, body: Buffer): Promise<{ status: number; told: boolean }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; told: boolean }>()
  let told = false
  const sending = request(url, {
    method: 'POST',
    headers: {
      ...Object.fromEntries(headers),
      'Content-Length': String(body.length),
      Expect: '100-continue',
    },
  })
  sending.on('continue', () => {
    told = true
    sending.end(body)
  })
  sending.on('error', reject)
  sending.on('response', (response) => {
    response.resume()
    resolve({ status: response.statusCode ?? 0, told })
  })
  sending.flushHeaders()
  t.teardown(() => sending.destroy())
  return promise
}

t.test('a sender that waits to be told to send is told so also where the names came before', async (t) => {
  const { headers, body } = await composed()
  t.equal((await post(url, headers, { body })).status, 200)
  t.same(await waiting(t, headers, body), { status: 200, told: true }, 'the names alone prove nothing')
})

t.test('it need not send again what was taken without a signature', async (t) => {
  const profile = `/as2/remote-profiles/${loop.acme.partner}`
  await waybill.request('PUT', profile, { require_signed: false })
  const { headers, body } = await composed({ signature: null })
  t.equal((await post(url, headers, { body })).status, 200)
  await waybill.request('PUT', profile, { require_signed: true })
  t.same(await waiting(t, headers, body), { status: 200, told: false })
})

t.test('a sender that waits to be told is told where the message is new', async (t) => {
  const { headers, body } = await composed()
  t.same(await waiting(t, headers, body), { status: 200, told: true })
})

t.test('headers without an end are not read on', async (t) => {
  const socket = await openConnection(url)
  const closed = new Promise((resolve) => socket.on('error', () => undefined).on('close', resolve))
  socket.resume()
  socket.write('POST /as2 HTTP/1.1\r\nHost: x\r\n')
  const more = (): void => {
    while (!socket.destroyed && socket.write('X: yyyyyyyyyyyyyyyy\r\n'));
  }
  socket.on('drain', more)
  more()
  await closed
  t.equal((await fetch(url, { method: 'HEAD' })).status, 200, 'others are served')
})

t.test(
  'a store that fails while a message comes in is no reason to lose it: its sender keeps it',
  async (t) => {
    const { messageId, headers, body } = await composed()
    const [kept, away] = [join(payloads, '.incoming'), join(payloads, 'away')]
    const sending = request(url, {
      method: 'POST',
      headers: { ...Object.fromEntries(headers), 'Content-Length': String(body.length) },
    })
    const answered = new Promise<number | undefined>((resolve, reject) => {
      sending.on('error', reject)
      sending.on('response', (response) => {
        response.resume()
        resolve(response.statusCode)
      })
    })
    sending.write(body.subarray(0, 2_000_000))
    await until('it comes in', async () => (await drafts()) > 0)
    await rename(kept, away)
    sending.end(body.subarray(2_000_000))
    t.equal(await answered, 503)
    const records = async () =>
      (await allMessages(waybill)).filter(({ protocols }) => protocols.as2?.message_id === messageId)
    t.same(await records(), [])
    await rename(away, kept)
    await until('it is taken', async () => (await post(url, headers, { body })).status === 200)
    t.equal((await records()).length, 1)
  },
)
