import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { createTestDatabase } from '../support/database.ts'
import { as2Headers, setUpSite, startSite } from '../support/exchange-site.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { reservePort } from '../support/reserved-port.ts'
import { Waybill } from '../support/waybill.ts'

const MIB = 2 ** 20
const SIZE = 64 * MIB - 64 * 1024
/** In each direction. Half of them end while the process drains, the others never do by themselves. */
const TRANSFERS = 10
const LIMIT_MS = 300_000
/** The guarantee is half a minute; a busy machine may take a little to notice that a process has ended. */
const DRAIN_LIMIT_MS = 35_000

t.setTimeout(600_000)

interface Posted {
  readonly id: string
  bytes: number
  isWhole: boolean
}

/** A partner that takes the beginning of what it is sent, and the rest only when it is let. */
async function slowPartner(t: Test) {
  const posts: Posted[] = []
  let mayGoOn = (_place: number): boolean => false
  const stalled = new Set<() => void>()
  const take = (request: IncomingMessage, response: ServerResponse): void => {
    const post: Posted = { id: String(request.headers['webhook-id']), bytes: 0, isWhole: false }
    const place = posts.push(post) - 1
    const resume = (): void => {
      if (!mayGoOn(place)) return
      stalled.delete(resume)
      request.resume()
    }
    request.on('data', (chunk: Buffer) => {
      post.bytes += chunk.length
      if (mayGoOn(place)) return
      request.pause()
      stalled.add(resume)
    })
    request.on('end', () => {
      post.isWhole = true
      response.writeHead(200).end()
    })
    request.on('error', () => undefined)
  }
  const server = createServer(take)
  const place = await reservePort()
  server.listen(place)
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
  })
  const letGoOn = (which: (place: number) => boolean): void => {
    mayGoOn = which
    const waiting = Array.from(stalled)
    for (const resume of waiting) resume()
  }
  return { url: `http://${place.host}:${place.port}/in`, posts, letGoOn }
}

/** A transfer to the AS2 receiver that has sent all but its end. */
async function beginTransfer(url: string, messageId: string, body: Buffer) {
  const sending = httpRequest(url, {
    method: 'POST',
    agent: false,
    headers: { ...as2Headers(messageId), 'Content-Length': String(body.length) },
  })
  const answer = new Promise<number | null>((resolve) => {
    sending.on('response', (response) => {
      response.resume()
      resolve(response.statusCode ?? null)
    })
    sending.on('error', () => resolve(null))
    sending.on('close', () => resolve(null))
  })
  const most = body.subarray(0, body.length - MIB)
  await new Promise<void>((resolve) => sending.write(most, () => resolve()))
  return { messageId, answer, finish: () => sending.end(body.subarray(body.length - MIB)) }
}

async function sendByHand(waybill: Waybill, body: Buffer<ArrayBuffer>): Promise<void> {
  await waybill.upload('/messages', { from: 'acme', to: 'globex', target: 'poster', file: new Blob([body]) })
}

t.test(
  'SIGTERM with twenty 64 MB transfers in flight ends in half a minute, and nothing is lost',
  async (t) => {
    const { url, pool } = await createTestDatabase(t)
    const directory = await temporaryDirectory(t)
    const partner = await slowPartner(t)
    const env = { DATABASE_URL: url, LOG_LEVEL: 'error' }
    const waybill = await Waybill.start({ directory, env })
    t.teardown(() => waybill.kill())
    const site = { directory, postUrl: partner.url, concurrency: TRANSFERS }
    const { receiverUrl } = await setUpSite(waybill, site)
    await startSite(waybill, ['http-poster/poster', 'as2-receiver/receiver'])

    const body = randomBytes(SIZE)
    for (let count = 0; count < TRANSFERS; count += 1) await sendByHand(waybill, body)
    await until(() => partner.posts.filter(({ bytes }) => bytes > 0).length === TRANSFERS, LIMIT_MS)
    const transfers = await Promise.all(
      Array.from({ length: TRANSFERS }, () => beginTransfer(receiverUrl, randomUUID(), body)),
    )
    // One more client that says nothing at all, and one that stops within its request.
    const { hostname, port } = new URL(waybill.url)
    const silent = connect(Number(port), hostname)
    const stuck = connect(Number(port), hostname)
    for (const socket of [silent, stuck]) {
      socket.on('error', () => undefined)
      t.teardown(async () => void socket.destroy())
      await once(socket, 'connect')
    }
    stuck.write(
      'POST /api/v1/organizations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{',
    )

    const sentAt = performance.now()
    const ended = waybill.stop('SIGTERM')
    const isFirstHalf = (place: number): boolean => place < TRANSFERS / 2
    partner.letGoOn(isFirstHalf)
    for (const [place, transfer] of transfers.entries()) if (isFirstHalf(place)) transfer.finish()
    t.equal(await ended, 0)
    const tookMs = performance.now() - sentAt
    t.comment(`ended after ${Math.round(tookMs)} ms`)
    t.ok(tookMs < DRAIN_LIMIT_MS, `it took ${Math.round(tookMs)} ms`)

    const answers = await Promise.all(transfers.map(({ answer }) => answer))
    const { rows: taken } = await pool.query<{ count: number }>(
      `select count(*)::int as count from message where direction = 'inbound'`,
    )
    const confirmed = answers.filter((status) => status === 200).length
    t.ok(confirmed <= (taken[0]?.count ?? 0), `${confirmed} were confirmed, each of them is committed`)
    const { rows: claimed } = await pool.query(`select from delivery where state = 'delivering'`)
    t.same(claimed, [], 'what was cut off went back to the queue')
    const { rows: failed } = await pool.query(`select from delivery where state in ('failed', 'stalled')`)
    t.same(failed, [])

    // Everybody repeats what was not confirmed.
    partner.letGoOn(() => true)
    const again = await Waybill.start({ directory, env })
    t.teardown(() => again.kill())
    for (const [place, { messageId }] of transfers.entries()) {
      if (answers[place] === 200) continue
      const send = async (): Promise<boolean> => {
        const headers = as2Headers(messageId)
        const sent = await fetch(receiverUrl, { method: 'POST', headers, body }).catch(() => null)
        await sent?.arrayBuffer()
        return sent?.status === 200
      }
      await until(send, LIMIT_MS)
    }
    const settled = async () =>
      (await pool.query(`select from message where stage <> 'settled'`)).rows.length === 0 &&
      (await pool.query('select from message')).rows.length === 2 * TRANSFERS
    await until(settled, LIMIT_MS)
    const { rows: states } = await pool.query(
      'select state, count(*)::int as count from delivery group by state',
    )
    t.same(states, [{ state: 'delivered', count: 2 * TRANSFERS }], 'each is there once, and delivered')
    const whole = partner.posts.filter(({ isWhole }) => isWhole)
    t.equal(new Set(whole.map(({ id }) => id)).size, 2 * TRANSFERS, 'and came whole')
    t.equal(await again.stop(), 0)
  },
)
