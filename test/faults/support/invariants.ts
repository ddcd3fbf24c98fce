import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Test } from 'tap'
import { DELIVERY_MOVES, STATUS_MOVES } from '../../../storage/exchange/states.ts'
import type { As2Facts } from '../../../actors/as2/facts.ts'
import type { Lane } from './lane.ts'
import { ABSENT, CONCURRENCY } from './site.ts'
import type { Arrival } from './peers.ts'
import { wrongAlerts } from './wrong-alerts.ts'

interface MessageRow {
  readonly id: string
  readonly source: string
  readonly stage: string
  readonly status: string
  readonly file_name: string
  readonly payloads: Readonly<Record<string, { readonly sha256: string; readonly size_bytes: number }>>
  readonly protocols: { readonly as2?: As2Facts }
}

interface DeliveryRow {
  readonly id: number
  readonly message_id: string
  readonly target: string
  readonly state: string
  readonly attempts: number
}

interface Line {
  readonly message_id: string
  readonly kind: string
  readonly old_status: string | null
  readonly new_status: string | null
  readonly delivery_id: number | null
  readonly old_state: string | null
  readonly new_state: string | null
  readonly text: string | null
}

/** All that is recorded, at one moment at which nothing is left to do. */
interface Records {
  readonly messages: readonly MessageRow[]
  readonly deliveries: readonly DeliveryRow[]
  readonly lines: readonly Line[]
}

const CUT_OFF = 'The attempt was cut off'

/**
 * What must be true whenever nothing is left to do, wherever the process was killed before: all that was handed in is one
 * message, it was delivered to each of its targets, each delivery was settled once, a repeat was of what was in hand at a
 * kill and carried the same id, and nothing lies around. Answers what is wrong, in words.
 */
async function violations(lane: Lane, verified: Set<string> = new Set()): Promise<string[]> {
  const records = await read(lane)
  return [
    ...wrongMessages(lane, records),
    ...wrongDeliveries(lane, records),
    ...wrongHistory(records),
    ...wrongArrivals(lane, records),
    ...wrongReceipts(lane, records),
    ...(await wrongFolders(lane, records)),
    ...(await wrongPayloads(lane, records, verified)),
    ...(await wrongCounts(lane, records)),
    ...(await wrongAlerts(lane)),
  ]
}

/** Passes when nothing is wrong. */
export async function holds(t: Test, lane: Lane, what: string, verified?: Set<string>): Promise<void> {
  t.same(await violations(lane, verified), [], what)
}

async function read({ pool }: Lane): Promise<Records> {
  const messages = await pool.query<MessageRow>('select * from message order by created_at, id')
  const deliveries = await pool.query<DeliveryRow>('select * from delivery order by id')
  const lines = await pool.query<Line>('select * from history order by id')
  return { messages: messages.rows, deliveries: deliveries.rows, lines: lines.rows }
}

/** Everything that was handed in is one message. */
function wrongMessages({ load }: Lane, { messages }: Records): string[] {
  const wrong: string[] = []
  const bySha256 = Map.groupBy(messages, ({ payloads }) => payloads['unpacked']?.sha256)
  for (const { name, sha256, source, isRefused, targets } of load.items) {
    const found = bySha256.get(sha256) ?? []
    bySha256.delete(sha256)
    const statuses = found.map(({ status }) => status).join(', ')
    if (found.length !== 1) wrong.push(`${name} is ${found.length} messages (${statuses})`)
    if (found[0] !== undefined && found[0].source !== source) wrong.push(`${name} came from elsewhere`)
    const expected = isRefused ? ['Refused'] : targets.includes(ABSENT) ? ['Stalled', 'Error'] : ['Delivered']
    if (found.some(({ status }) => !expected.includes(status))) wrong.push(`${name} is ${statuses}`)
  }
  const others = [...bySha256.values()].flat()
  const tests = others.filter(({ file_name }) => file_name.startsWith('waybill-test-'))
  for (const { id, file_name } of others)
    if (!file_name.startsWith('waybill-test-')) wrong.push(`nobody handed ${id} in`)
  if (tests.length > load.testsAsked)
    wrong.push(`${load.testsAsked} test messages were asked for, and ${tests.length} are there`)
  for (const id of load.testsConfirmed)
    if (!tests.some((test) => test.id === id)) wrong.push(`the test message ${id} was confirmed and is lost`)
  return wrong
}

/** Each message has a delivery for each of its targets, and all are settled. */
function wrongDeliveries(lane: Lane, { messages, deliveries, lines }: Records): string[] {
  const wrong: string[] = []
  const byMessage = Map.groupBy(deliveries, ({ message_id }) => message_id)
  const items = new Map(lane.load.items.map((item) => [item.sha256, item]))
  for (const { id, payloads } of messages) {
    const item = items.get(payloads['unpacked']?.sha256 ?? '')
    const expected = (item?.targets ?? ['sender']).toSorted().join()
    const targets = (byMessage.get(id) ?? []).map(({ target }) => target).toSorted()
    if (targets.join() !== expected) wrong.push(`${id} goes to ${targets.join()}, not to ${expected}`)
  }
  for (const { id, target, state } of deliveries) {
    const ends = target === ABSENT ? ['stalled', 'failed'] : ['delivered']
    if (!ends.includes(state)) wrong.push(`the delivery ${id} to ${target} is ${state}`)
  }
  const cutOffs = lines.filter(({ new_state, text }) => new_state === 'queued' && text === CUT_OFF)
  const byTarget = Map.groupBy(cutOffs, ({ delivery_id }) => targetOf(deliveries, delivery_id))
  for (const [target, cut] of byTarget)
    if (target !== ABSENT && cut.length > lane.kills * CONCURRENCY)
      wrong.push(`${cut.length} attempts to ${target} were cut off by ${lane.kills} kills`)
  return wrong
}

const targetOf = (deliveries: readonly DeliveryRow[], id: number | null): string =>
  deliveries.find((delivery) => delivery.id === id)?.target ?? ''

/** History explains every state, by allowed moves alone, and nothing was settled twice. */
function wrongHistory({ messages, deliveries, lines }: Records): string[] {
  const wrong: string[] = []
  const statuses = new Map<string, string>()
  const states = new Map<number, string>()
  const count = new Map<string, number>()
  const note = (what: string): void => void count.set(what, (count.get(what) ?? 0) + 1)
  for (const line of lines) {
    const { message_id, kind, delivery_id } = line
    if (kind === 'status_changed') {
      const before = statuses.get(message_id) ?? null
      if (line.old_status !== before || !mayMove(STATUS_MOVES, before, line.new_status, FIRST_STATUSES))
        wrong.push(`${message_id} went from ${before} (${line.old_status}) to ${line.new_status}`)
      statuses.set(message_id, line.new_status ?? '')
    }
    if (kind === 'delivery_changed' && delivery_id !== null) {
      const before = states.get(delivery_id) ?? null
      if (line.old_state !== before || !mayMove(DELIVERY_MOVES, before, line.new_state, ['queued']))
        wrong.push(`the delivery ${delivery_id} went from ${before} (${line.old_state}) to ${line.new_state}`)
      states.set(delivery_id, line.new_state ?? '')
      note(`${delivery_id} ${line.new_state}`)
    } else if (delivery_id !== null) note(`${delivery_id} ${kind}`)
  }
  for (const { id, status } of messages)
    if (statuses.get(id) !== status) wrong.push(`${id} is ${status} and its history says ${statuses.get(id)}`)
  for (const { id, state, target } of deliveries) {
    if (states.get(id) !== state) wrong.push(`the delivery ${id} is ${state}, not ${states.get(id)}`)
    const redelivered = count.get(`${id} redeliver_requested`) ?? 0
    const delivered = count.get(`${id} delivered`) ?? 0
    if (target === ABSENT) continue
    if (delivered !== 1 + redelivered)
      wrong.push(`the delivery ${id} to ${target} was settled ${delivered} times`)
    const receipts = count.get(`${id} mdn_received`) ?? 0
    if (target === 'sender' && receipts !== delivered)
      wrong.push(`the delivery ${id} has ${receipts} receipts`)
  }
  return wrong
}

const FIRST_STATUSES = ['Received', 'Refused']

function mayMove(
  table: Readonly<Record<string, readonly string[]>>,
  from: string | null,
  to: string | null,
  first: readonly string[],
): boolean {
  return (from === null ? first : (table[from] ?? [])).includes(to ?? '')
}

/** What the peers received: all of it, with the same id each time, and not more often than it was tried. */
function wrongArrivals({ peers, load }: Lane, { messages, deliveries, lines }: Records): string[] {
  const wrong: string[] = []
  const sha256 = new Map(messages.map(({ id, payloads }) => [id, payloads['unpacked']?.sha256]))
  const idOf = {
    poster: ({ message_id, id }: DeliveryRow): string => `${message_id}-${id}`,
    sender: ({ message_id }: DeliveryRow): string => `<${message_id}@waybill>`,
  }
  const compare = (target: 'poster' | 'sender', arrivals: readonly Arrival[]): void => {
    const byId = Map.groupBy(arrivals, ({ id }) => id)
    for (const delivery of deliveries.filter((each) => each.target === target)) {
      const id = idOf[target](delivery)
      const arrived = byId.get(id) ?? []
      byId.delete(id)
      const claims = lines.filter(
        (each) => each.delivery_id === delivery.id && each.new_state === 'delivering',
      )
      if (arrived.length === 0) wrong.push(`${id} is delivered and did not arrive`)
      if (arrived.length > claims.length) wrong.push(`${id} came ${arrived.length} times of ${claims.length}`)
      if (arrived.some((each) => each.sha256 !== sha256.get(delivery.message_id)))
        wrong.push(`${id} arrived with other bytes`)
    }
    for (const id of byId.keys()) wrong.push(`${id} arrived and was never sent`)
  }
  compare('poster', peers.posts)
  compare('sender', peers.messages)
  for (const id of load.redeliveriesConfirmed)
    if (!lines.some(({ delivery_id, kind }) => delivery_id === id && kind === 'redeliver_requested'))
      wrong.push(`the redelivery of ${id} was confirmed and is lost`)
  return wrong
}

/** What was owed by itself was sent, the same bytes each time, and what the partner sent by itself was taken. */
function wrongReceipts({ peers }: Lane, { messages }: Records): string[] {
  const wrong = peers.refusals.map((text) => `a genuine receipt was refused: ${text}`)
  const byMessage = Map.groupBy(peers.receipts, ({ id }) => id)
  for (const { id, source, protocols } of messages) {
    const facts = protocols.as2
    if (source !== 'receiver' || facts?.receipt?.mode !== 'Async') continue
    const receipts = byMessage.get(facts.message_id) ?? []
    const bodies = new Set(receipts.map(({ sha256 }) => sha256))
    if (bodies.size !== 1) wrong.push(`${bodies.size} different receipts came for ${id}`)
    if (facts.receipt.state !== 'sent') wrong.push(`the receipt of ${id} came and is ${facts.receipt.state}`)
  }
  return wrong
}

/** Files are taken in once and written once, and nothing is left between. */
async function wrongFolders({ site, load }: Lane, { messages, deliveries }: Records): Promise<string[]> {
  const wrong: string[] = []
  const { outbox, processed, refused, written } = site.folders
  const files = load.items.filter(({ source }) => source === 'poller')
  const namesOf = (isRefused: boolean): string[] =>
    files.filter((file) => file.isRefused === isRefused).map(({ name, sha256 }) => `${name} ${sha256}`)
  const compare = async (directory: string, expected: readonly string[]): Promise<void> => {
    const found = await contentsOf(directory)
    for (const file of expected) if (!found.delete(file)) wrong.push(`${file} is not in ${directory}`)
    for (const file of found) wrong.push(`${file} should not be in ${directory}`)
  }
  await compare(join(outbox, 'globex'), [])
  await compare(join(outbox, 'nobody'), [])
  await compare(join(processed, 'globex'), namesOf(false))
  await compare(join(refused, 'nobody'), namesOf(true))
  for (const [target, directory] of Object.entries(written)) {
    const ids = new Set(
      deliveries.filter((each) => each.target === target).map(({ message_id }) => message_id),
    )
    const expected = messages
      .filter(({ id }) => ids.has(id))
      .flatMap(({ id, file_name, payloads }) => {
        const sha256 = payloads['unpacked']?.sha256 ?? ''
        const several = load.items.find((item) => item.sha256 === sha256)?.files
        return (several ?? [{ name: file_name, sha256 }]).map((file) => `${id}-${file.name} ${file.sha256}`)
      })
    await compare(directory, expected)
    await compare(join(directory, '.waybill'), [])
  }
  return wrong
}

/** The files of a directory with their digests, hidden ones too; a missing directory has none. */
async function contentsOf(directory: string): Promise<Set<string>> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => [])
  const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name)
  return new Set(
    await Promise.all(files.map(async (name) => `${name} ${await digestOf(join(directory, name))}`)),
  )
}

async function digestOf(path: string): Promise<string> {
  const digest = createHash('sha256')
  await pipeline(createReadStream(path), digest)
  return digest.digest('hex')
}

/** Every stage that is recorded is stored, byte for byte. What was verified before is not read again. */
async function wrongPayloads(
  { site }: Lane,
  { messages }: Records,
  verified: Set<string>,
): Promise<string[]> {
  const wrong: string[] = []
  for (const { id, payloads } of messages) {
    if (verified.has(id)) continue
    for (const [stage, { sha256 }] of Object.entries(payloads)) {
      const stored = await digestOf(join(site.folders.payloads, id, stage)).catch(() => 'missing')
      if (stored !== sha256) wrong.push(`${id}/${stage} is ${stored}, not ${sha256}`)
    }
    // A receipt may be stored again: by a redelivery.
    if (!('receipt' in payloads)) verified.add(id)
  }
  return wrong
}

/** What the lists count is what is there. */
async function wrongCounts({ pool }: Lane, { messages }: Records): Promise<string[]> {
  const counted = await pool.query<{ total: number }>(
    `select total::int from message_page(null, null, null, null, 1, 0)`,
  )
  const total = counted.rows[0]?.total ?? 0
  return total === messages.length ? [] : [`${messages.length} messages are there, and ${total} are counted`]
}

/** What is in the payload store and belongs to no message: what kills have left. */
export async function leftovers({ pool, site }: Lane): Promise<string[]> {
  const { payloads } = site.folders
  const { rows } = await pool.query<{ id: string }>('select id from message')
  const known = new Set(rows.map(({ id }) => id))
  const stored = (await readdir(payloads)).filter((name) => !name.startsWith('.') && !known.has(name))
  const drafts = await readdir(join(payloads, '.incoming'))
  return [...stored, ...drafts.map((name) => `.incoming/${name}`)]
}
