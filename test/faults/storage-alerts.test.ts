import { appendFile, mkdir, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createTestDatabase } from '../support/database.ts'
import { mountSmallDisk } from '../support/disks.ts'
import { healthOf, startPartner, startSite, type Partner } from '../support/exchange-site.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

const LIMIT_MS = 240_000
const MIB = 2 ** 20

t.setTimeout(600_000)

interface Alert {
  readonly code: string
  readonly subject_name: string
  readonly details: string
}

/** What the webhook was told of the storage, once it was. */
async function toldOfStorage({ received }: Partner): Promise<Alert> {
  const told = () =>
    received
      .map(({ body }) => (JSON.parse(body) as { alert: Alert }).alert)
      .filter(({ code }) => code === 'storage_failed')
  await until(() => told().length > 0, LIMIT_MS)
  const [alert, ...more] = told()
  if (alert === undefined || more.length > 0) throw new Error(`${1 + more.length} alerts of the storage`)
  return alert
}

async function addOperators(waybill: Waybill, webhook: Partner): Promise<void> {
  const operators = { name: 'operators', url: webhook.url }
  await waybill.request('POST', '/plugins/configs?type=notification-webhook', operators)
  await startSite(waybill, ['notification-webhook/operators'])
}

/** Takes the room of a file system but so much; the answer gives it back. */
async function fillUpTo(directory: string, leftBytes: number): Promise<() => Promise<void>> {
  const name = join(directory, 'ballast')
  const moreBytes = async (): Promise<number> => {
    const { bavail, bsize } = await statfs(directory)
    return bavail * bsize - leftBytes
  }
  for (let more = await moreBytes(); more > 0; more = await moreBytes())
    await appendFile(name, Buffer.alloc(Math.min(more, MIB)))
  return () => rm(name)
}

async function sendByHand(waybill: Waybill): Promise<number> {
  const form = new FormData()
  for (const [name, value] of Object.entries({ from: 'acme', to: 'globex', target: 'poster' }))
    form.set(name, value)
  form.set('file', new Blob(['an order']), 'order.txt')
  const headers = { 'x-requested-with': 'waybill' }
  const { status } = await fetch(`${waybill.url}/api/v1/messages`, { method: 'POST', headers, body: form })
  return status
}

async function emptyDisk(t: Test, path: string, sizeBytes: number): Promise<string> {
  await mkdir(path)
  mountSmallDisk(t, path, sizeBytes)
  return path
}

t.test('a start with a full payload disk takes nothing in, tells of it, and goes on by itself', async (t) => {
  const { url } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const webhook = await startPartner(t)
  const start = async (): Promise<Waybill> => {
    const waybill = await Waybill.start({ directory, env: { DATABASE_URL: url, LOG_LEVEL: 'error' } })
    t.teardown(() => waybill.kill())
    return waybill
  }
  const before = await start()
  await addOperators(before, webhook)
  for (const [path, name] of [
    ['/organizations', 'acme'],
    ['/partners', 'globex'],
  ] as const)
    await before.request('POST', path, { name })
  await before.request('POST', '/plugins/configs?type=http-poster', { name: 'poster', url: webhook.url })
  const disk = await emptyDisk(t, join(directory, 'elsewhere'), 32 * MIB)
  await before.request('PUT', '/settings', { storage_local_directory: disk })
  t.equal(await before.stop(), 0)

  const giveBack = await fillUpTo(disk, 0)
  const waybill = await start()
  t.match(await healthOf(waybill), {
    code: 503,
    problems: ['Payloads cannot be stored: The file system is full'],
  })
  t.equal(await sendByHand(waybill), 503)
  const { subject_name, details } = await toldOfStorage(webhook)
  t.equal(subject_name, `the directory ${disk}`, 'not where payloads were stored before')
  t.match(details, `\nStorage: the directory ${disk}\n`)
  t.match(waybill.output.join('\n'), 'Payloads cannot be stored: nothing is taken in')

  await giveBack()
  await until(async () => (await healthOf(waybill)).code === 200, LIMIT_MS)
  t.equal(await sendByHand(waybill), 201)
})

t.test('a full disk of the embedded database is told as such', async (t) => {
  const directory = await temporaryDirectory(t)
  const data = await emptyDisk(t, join(directory, 'data'), 400 * MIB)
  const webhook = await startPartner(t)
  const waybill = await Waybill.start({ directory, env: { LOG_LEVEL: 'error' } })
  t.teardown(async () => void (await waybill.stop()))
  await addOperators(waybill, webhook)
  // Below what must be left, and enough for the database to go on.
  const giveBack = await fillUpTo(data, 19 * MIB)
  const { subject_name, details } = await toldOfStorage(webhook)
  t.equal(subject_name, `the data directory ${data}`)
  t.match(
    details,
    new RegExp(`\\nStorage: the data directory ${data}\\nRoom: \\d+ of 400 MiB are free on its disk\\n`),
  )
  await giveBack()
  await until(async () => (await healthOf(waybill)).code === 200, LIMIT_MS)
})
