import { mkdir, rm, writeFile } from 'node:fs/promises'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { raiseAlert } from '../support/alerts.ts'
import { makeCertificate } from '../support/certificates.ts'
import { createTestDatabase } from '../support/database.ts'
import { mountSmallDisk } from '../support/disks.ts'
import { servicesOf, startPartner, startSite, type Partner } from '../support/exchange-site.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { reservePort } from '../support/reserved-port.ts'
import { Waybill } from '../support/waybill.ts'

const LIMIT_MS = 240_000

t.setTimeout(600_000)

interface Post {
  readonly notifier: string
  readonly alert: {
    readonly code: string
    readonly severity: string
    readonly summary: string
    readonly details: string
    readonly link: string
  }
}

/** What the webhook was told, once it was told of this. */
async function told({ received }: Partner, code: string): Promise<Post['alert']> {
  const posts = () => received.map(({ body }) => (JSON.parse(body) as Post).alert)
  await until(() => posts().some((alert) => alert.code === code), LIMIT_MS)
  const found = posts().filter((alert) => alert.code === code)
  if (found.length !== 1 || found[0] === undefined) throw new Error(`${code} was told ${found.length} times`)
  return found[0]
}

/** A service with its payloads on a disk of its own, and a notifier that runs. */
async function site(t: Test) {
  const { url } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const store = join(directory, 'payloads')
  await mkdir(store)
  mountSmallDisk(t, store, 32 * 2 ** 20)
  const env = { DATABASE_URL: url, PUBLIC_URL: 'https://edi.example.com/', LOG_LEVEL: 'error' }
  const waybill = await Waybill.start({ directory, env })
  t.teardown(() => waybill.kill())
  const webhook = await startPartner(t)
  const operators = { name: 'operators', url: webhook.url }
  await waybill.request('POST', '/plugins/configs?type=notification-webhook', operators)
  await startSite(waybill, ['notification-webhook/operators'])
  const made = (path: string, name: string) => waybill.request<{ id: number }>('POST', path, { name })
  await made('/organizations', 'acme')
  const { id: globex } = await made('/partners', 'globex')
  return { waybill, webhook, store, globex }
}

t.test('a partner who is down reaches the webhook: what failed, why, and where to look', async (t) => {
  const { waybill, webhook } = await site(t)
  const gone = await reservePort()
  await waybill.request('POST', '/plugins/configs?type=http-poster', {
    name: 'poster',
    url: `http://${gone.host}:${gone.port}/in`,
    retry_max_attempts: 1,
  })
  await startSite(waybill, ['http-poster/poster'])
  const { id } = await waybill.upload<{ id: string }>('/messages', {
    from: 'acme',
    to: 'globex',
    target: 'poster',
    file: new Blob(['an order']),
  })
  t.match(await told(webhook, 'delivery_failed'), {
    severity: 'critical',
    summary: 'The delivery of file.bin from acme to globex by poster has failed',
    details: /^Reason: .+\nTarget: poster\nAttempts: 1\n/,
    link: `https://edi.example.com/api/v1/messages/${id}`,
  })
})

t.test('a disk that is full reaches the webhook once, and so does the next time', async (t) => {
  const { waybill, webhook, store } = await site(t)
  const alert = await filled(store, () => told(webhook, 'storage_failed'))
  t.match(alert, {
    severity: 'critical',
    summary: /^Payloads cannot be stored: The .* full\. Nothing is taken in until they can be stored again$/,
    details: /^Reason: Payloads cannot be stored: /,
    link: 'https://edi.example.com/api/v1/settings',
  })
  t.match(alert.details, `Storage: the directory ${store}\n`)
  const health = async () => (await fetch(`${waybill.url}/api/v1/health`)).status
  await until(async () => (await health()) === 200, LIMIT_MS)
  const listed = () =>
    waybill.request<{ notifications: { outcome: string }[] }>('GET', '/notifications?code=storage_failed')
  t.match(await listed(), { total: 1, notifications: [{ outcome: 'delivered' }] })
  await filled(store, () => until(async () => (await listed()).notifications.length === 2, LIMIT_MS))
  // Within its cooldown the notifier leaves it out.
  await until(async () => (await listed()).notifications[0]?.outcome === 'suppressed_cooldown', LIMIT_MS)
})

t.test('a certificate in use that ends reaches the webhook: which, when, and who uses it', async (t) => {
  const { waybill, webhook, globex } = await site(t)
  const { certificatePem } = makeCertificate({ commonName: 'globex edi', days: 5 })
  const { id } = await waybill.upload<{ id: number }>('/certificates', {
    certificate: new Blob([certificatePem]),
    description: 'theirs',
  })
  await waybill.request('POST', '/as2/remote-profiles', {
    business_partner_id: globex,
    as2id: 'GLOBEX',
    endpoint: 'http://127.0.0.1:9/as2',
    partner_certificate_id: id,
  })
  t.match(await told(webhook, 'certificate_expiring'), {
    severity: 'critical',
    summary: /^The certificate globex edi expires in \d days? \(20\d\d-\d\d-\d\d \d\d:\d\d UTC\)$/,
    details: /Used by:\n {2}AS2 profile of the partner globex \(partner_certificate_id\)$/,
    link: `https://edi.example.com/api/v1/certificates/${id}`,
  })
})

t.test('a node that dies while it posts leaves the notifier to another one, for the same post', async (t) => {
  const { url, pool } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const posts: { readonly id: string; readonly answer: ServerResponse }[] = []
  const server = createServer((request, answer) => {
    request.resume()
    request.on('end', () => posts.push({ id: String(request.headers['webhook-id']), answer }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
  })
  const start = async (node: string): Promise<Waybill> => {
    const env = { DATABASE_URL: url, SECRET_KEY: 'the same on every node', LOG_LEVEL: 'error' }
    const waybill = await Waybill.start({ directory: join(directory, node), env })
    t.teardown(() => waybill.kill())
    return waybill
  }
  const first = await start('first')
  const { port } = server.address() as AddressInfo
  const operators = { name: 'operators', url: `http://127.0.0.1:${port}/` }
  await first.request('POST', '/plugins/configs?type=notification-webhook', operators)
  await startSite(first, ['notification-webhook/operators'])
  const raise = (subjectName: string) =>
    raiseAlert(pool, { code: 'delivery_failed', severity: 'critical', subjectName })
  await raise('a')
  await until(() => posts.length === 1, LIMIT_MS)
  const second = await start('second')
  const runs = async () =>
    (await servicesOf(second)).some(({ name, status }) => name === 'operators' && status === 'running')
  await until(runs, LIMIT_MS)
  await first.kill()
  const { rows } = await pool.query<{ seconds: number }>(
    `select extract(epoch from lease_until - exchange_time())::float8 as seconds from notification`,
  )
  t.ok((rows[0]?.seconds ?? 0) <= 20, 'nobody waits longer for the dead')
  await until(() => posts.length === 2, LIMIT_MS)
  t.equal(posts[1]?.id, posts[0]?.id, 'the repeat has the same id')
  posts[1]?.answer.end()
  await raise('b')
  await until(() => posts.length === 3, LIMIT_MS)
  posts[2]?.answer.end()
  const outcomes = async () =>
    (await pool.query<{ outcome: string }>('select outcome from notification order by id')).rows.map(
      ({ outcome }) => outcome,
    )
  await until(async () => (await outcomes()).join() === 'delivered,delivered', LIMIT_MS)
})

/** Takes all the room of a file system while the work lasts. */
async function filled<T>(directory: string, work: () => Promise<T>): Promise<T> {
  const part = Buffer.alloc(1_000_000)
  const names: string[] = []
  let isFull = false
  while (!isFull) {
    const name = join(directory, `ballast-${names.length}`)
    names.push(name)
    isFull = await writeFile(name, part).then(
      () => false,
      () => true,
    )
  }
  try {
    return await work()
  } finally {
    for (const name of names) await rm(name, { force: true })
  }
}
