import { randomUUID } from 'node:crypto'
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createTestDatabase } from '../support/database.ts'
import {
  as2Headers,
  drop,
  healthOf,
  servicesOf,
  setUpSite,
  startPartner,
  startSite,
} from '../support/exchange-site.ts'
import { mountSmallDisk } from '../support/disks.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

const LIMIT_MS = 120_000
const MOST_WAITING = 5

t.setTimeout(400_000)

async function prepare(t: Test) {
  const { url, pool } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const partner = await startPartner(t)
  const start = async (): Promise<Waybill> => {
    const env = { DATABASE_URL: url, MAX_WAITING_DELIVERIES: String(MOST_WAITING), LOG_LEVEL: 'error' }
    const waybill = await Waybill.start({ directory, env })
    t.teardown(() => waybill.kill())
    return waybill
  }
  return { directory, partner, pool, start }
}

async function sendByHand(waybill: Waybill, content: string): Promise<{ status: number; code?: string }> {
  const form = new FormData()
  form.set('from', 'acme')
  form.set('to', 'globex')
  form.set('target', 'poster')
  form.set('file', new Blob([content]), 'order.txt')
  const headers = { 'x-requested-with': 'waybill' }
  const answer = await fetch(`${waybill.url}/api/v1/messages`, { method: 'POST', headers, body: form })
  const { error } = (await answer.json()) as { error: { code: string } | null }
  if (answer.status === 503) t.ok(answer.headers.has('retry-after'))
  return error === null ? { status: answer.status } : { status: answer.status, code: error.code }
}

async function sendAs2(url: string, body: string | Buffer, messageId = randomUUID()): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: as2Headers(messageId),
    body: new Uint8Array(Buffer.from(body)),
  })
}

const heldBackOf = async (waybill: Waybill, name: string): Promise<string | null> =>
  (await servicesOf(waybill)).find((service) => service.name === name)?.held_back ?? null

t.test('sources hold back while the queue behind them is full, and go on by themselves', async (t) => {
  const { directory, partner, start } = await prepare(t)
  const waybill = await start()
  const { outbox, receiverUrl } = await setUpSite(waybill, { directory, postUrl: partner.url })
  await startSite(waybill, ['file-poller/poller', 'as2-receiver/receiver'])
  for (let index = 0; index < MOST_WAITING; index += 1) {
    t.equal((await sendByHand(waybill, `by hand ${index}`)).status, 201)
  }
  for (const source of ['poller', 'receiver']) {
    await until(async () => (await heldBackOf(waybill, source)) !== null, LIMIT_MS)
    t.equal(await heldBackOf(waybill, source), '5 deliveries or more wait for poster')
  }
  t.match(await sendByHand(waybill, 'too much'), { status: 503, code: 'QUEUE_FULL' })
  const refused = await sendAs2(receiverUrl, 'an order')
  t.equal(refused.status, 503)
  t.ok(refused.headers.has('retry-after'))
  await drop(outbox, 'waits.txt', 'a file')
  t.match(await healthOf(waybill), {
    code: 200,
    status: 'healthy',
    problems: ['5 deliveries or more wait for poster'],
  })
  t.same(await readdir(outbox), ['waits.txt'], 'the file stays where it is')

  await startSite(waybill, ['http-poster/poster'])
  await until(() => partner.distinct.has('a file'), LIMIT_MS)
  await until(async () => (await sendAs2(receiverUrl, 'an order')).status === 200, LIMIT_MS)
  await until(() => partner.distinct.has('an order'), LIMIT_MS)
  t.notOk('problems' in (await healthOf(waybill)))
  t.equal(await heldBackOf(waybill, 'poller'), null)
  t.notOk(partner.distinct.has('too much'), 'what was refused was not taken')
})

interface Spoiling {
  /** Before the service starts. */
  readonly make?: (store: string) => void
  readonly spoil: (store: string) => Promise<void>
  readonly mend: (store: string) => Promise<void>
  /** Whether what was cut off can be removed at once. */
  readonly isSwept: boolean
}

/** Nothing is taken in while `spoil` has its effect; all goes on after `mend`, in the same process. */
async function refusesWhile(t: Test, { make, spoil, mend, isSwept }: Spoiling): Promise<void> {
  const { directory, partner, pool, start } = await prepare(t)
  const store = join(directory, 'payloads')
  await mkdir(store)
  make?.(store)
  const waybill = await start()
  const { outbox, receiverUrl } = await setUpSite(waybill, { directory, postUrl: partner.url })
  await startSite(waybill)
  t.equal((await sendAs2(receiverUrl, 'before')).status, 200)
  await until(() => partner.distinct.has('before'), LIMIT_MS)

  await spoil(store)
  const large = Buffer.alloc(400_000, 'x')
  // At first the loss is met by what needs the store, then it is known before.
  t.equal((await sendAs2(receiverUrl, large)).status, 503, 'never a receipt for what was not stored')
  await until(async () => (await healthOf(waybill)).code === 503, LIMIT_MS)
  const { database, problems = [] } = await healthOf(waybill)
  t.equal(database, 'up')
  t.match(problems, [/^Payloads cannot be stored: \S+/])
  t.notMatch(problems.join(), directory, 'it names no place')
  for (const source of ['poller', 'receiver'])
    await until(async () => (await heldBackOf(waybill, source)) !== null, LIMIT_MS)
  t.equal((await sendAs2(receiverUrl, 'small')).status, 503)
  t.match(await sendByHand(waybill, 'by hand'), { status: 503, code: 'STORAGE_UNAVAILABLE' })
  await drop(outbox, 'waits.txt', 'a file')
  const { rows } = await pool.query('select count(*)::int as count from message')
  t.same(rows, [{ count: 1 }], 'nothing was recorded')

  await mend(store)
  await until(() => partner.distinct.has('a file'), LIMIT_MS)
  await until(async () => (await sendAs2(receiverUrl, large)).status === 200, LIMIT_MS)
  await until(() => partner.distinct.has(large.toString()), LIMIT_MS)
  await until(async () => (await healthOf(waybill)).code === 200, LIMIT_MS)
  for (const { name, restarts } of await servicesOf(waybill)) t.equal(restarts, 0, `${name} never broke down`)
  // A probe may be under way.
  if (isSwept) await until(async () => (await readdir(join(store, '.incoming'))).length === 0, LIMIT_MS)
}

t.test('nothing is taken in while the payload store is gone', async (t) => {
  await refusesWhile(t, {
    spoil: async (store) => {
      await rename(store, `${store}-away`)
      // Not even its place can be made again.
      await writeFile(store, '')
    },
    mend: async (store) => {
      await rm(store)
      await rename(`${store}-away`, store)
    },
    // What was written when the store went away went with it.
    isSwept: false,
  })
})

void t.test('nothing is taken in while the disk of the payloads is full', async (t) => {
  let giveBack = (): Promise<void> => Promise.resolve()
  await refusesWhile(t, {
    make: (store) => mountSmallDisk(t, store, 32 * 2 ** 20),
    spoil: async (store) => {
      giveBack = await fill(store)
    },
    mend: () => giveBack(),
    isSwept: true,
  })
})

/** Takes all the room that a file system has; the answer gives it back. */
async function fill(directory: string): Promise<() => Promise<void>> {
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
  return async () => {
    for (const name of names) await rm(name)
  }
}

void t.test('nothing is taken in while the disk of the embedded database is full', async (t) => {
  const directory = await temporaryDirectory(t)
  const data = join(directory, 'data')
  await mkdir(data)
  mountSmallDisk(t, data, 400 * 2 ** 20)
  const partner = await startPartner(t)
  const waybill = await Waybill.start({ directory, env: { LOG_LEVEL: 'error' } })
  t.teardown(async () => void (await waybill.stop()))
  const { outbox, receiverUrl } = await setUpSite(waybill, { directory, postUrl: partner.url })
  await startSite(waybill)
  t.equal((await sendAs2(receiverUrl, 'before')).status, 200)
  await until(() => partner.distinct.has('before'), LIMIT_MS)

  const giveBack = await fill(data)
  await until(async () => (await healthOf(waybill)).code === 503, LIMIT_MS)
  t.match(await healthOf(waybill), { problems: ['Payloads cannot be stored: The disk is nearly full'] })
  for (const source of ['poller', 'receiver'])
    await until(async () => (await heldBackOf(waybill, source)) !== null, LIMIT_MS)
  t.equal((await sendAs2(receiverUrl, 'an order')).status, 503)
  t.match(await sendByHand(waybill, 'by hand'), { status: 503, code: 'STORAGE_UNAVAILABLE' })
  await drop(outbox, 'waits.txt', 'a file')

  await giveBack()
  await until(() => partner.distinct.has('a file'), LIMIT_MS)
  await until(async () => (await sendAs2(receiverUrl, 'an order')).status === 200, LIMIT_MS)
  await until(() => partner.distinct.has('an order'), LIMIT_MS)
  for (const { name, restarts } of await servicesOf(waybill)) t.equal(restarts, 0, `${name} never broke down`)
})
