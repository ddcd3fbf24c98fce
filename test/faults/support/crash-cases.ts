import { rename, rm, writeFile } from 'node:fs/promises'
import type { Test } from 'tap'
import type { CrashPoint } from '../../../runtime/crash-point.ts'
import { claim } from '../../../storage/sql/claim.ts'
import { settle } from '../../../storage/sql/settle.ts'
import { until } from '../../support/processes.ts'
import { holds, leftovers } from './invariants.ts'
import { Lane } from './lane.ts'
import { ABSENT, BROKEN, DIGEST, OPERATORS } from './site.ts'

/** How the process comes to a point, under the load that all have in common. */
interface CrashCase {
  /** The type of the instance whose thread counts; null for any. */
  readonly thread: string | null
  /** The name of that instance; null for any. */
  readonly instance: string | null
  readonly hit: number
  /** A point of a start: the process is killed here first. */
  readonly afterKillAt: CrashPoint | null
  /** Nothing is handed in before. */
  readonly isIdle: boolean
  /** What else must happen for the point to be reached. */
  readonly provoke: ((lane: Lane) => Promise<void>) | null
  /** What must be mended before the next start. */
  readonly mend: ((lane: Lane) => Promise<void>) | null
}

const at = (hit: number, others: Partial<CrashCase> = {}): readonly CrashCase[] => [
  {
    thread: null,
    instance: null,
    hit,
    afterKillAt: null,
    isIdle: false,
    provoke: null,
    mend: null,
    ...others,
  },
]

/** The same in the threads of all targets. */
const inEachTarget = (hit: number): readonly CrashCase[] =>
  ['as2-sender', 'file-writer', 'http-poster'].flatMap((thread) => at(hit, { thread }))

/** The post of a group, in which repeats are left out. */
const ofGroup = at(1, { instance: DIGEST, provoke: failSeveral })

/** Every point is here: a new one without a case does not compile. */
const CASES: Readonly<Record<CrashPoint, readonly CrashCase[]>> = {
  'as2-receiver.stages-stored': at(2),
  'as2-receiver.accepted': at(3),
  'as2-receiver.repeat-recorded': at(1),
  'as2-receiver.answered': at(2),
  'as2-receiver.announced': at(2),
  'file-poller.lease-held': at(1, { afterKillAt: 'file-poller.accepted' }),
  'file-poller.payload-stored': at(1),
  'file-poller.accepted': at(2),
  'file-poller.set-aside': at(2),
  'file-poller.second-name': at(2),
  'file-poller.first-name-removed': at(3),
  'file-poller.moves-synced': at(1),
  'file-poller.moved-away': at(1),
  'file-poller.refused-released': at(1),
  'file-poller.dispatched': at(1),
  'file-poller.announced': at(1),
  'api.file-stored': at(2),
  'api.message-accepted': at(3),
  'api.message-announced': at(2),
  'api.test-message-accepted': at(1),
  'api.redelivered': at(1, { provoke: redeliver }),
  'api.redispatched': at(1, { provoke: redispatch }),
  'payload-put.draft-synced': at(2),
  'payload-put.renamed': at(1),
  'payload-put.directories-synced': at(2),
  'payload-bulk.drafts-synced': at(1),
  'payload-bulk.renamed': at(1),
  'mover.locked': at(1),
  'mover.stored': at(1),
  'mover.journal-removed': at(1),
  'mover.committed': at(1),
  'delivery.taken-back': at(1, { thread: 'file-writer', afterKillAt: 'delivery.claimed' }),
  'delivery.claimed': inEachTarget(1),
  'delivery.attempted': inEachTarget(1),
  'delivery.settled': inEachTarget(2),
  'delivery.finished': at(2, { thread: 'file-writer' }),
  'as2-sender.composed': at(2),
  'as2-sender.sent': at(3),
  'as2-sender.answered': at(2),
  'as2-sender.judged': at(3),
  'http-poster.sent': at(3),
  'http-poster.answered': at(2),
  'file-writer.draft-begun': at(2),
  'file-writer.draft-synced': at(2),
  'file-writer.named': at(3),
  'file-writer.marked-done': at(2),
  'file-writer.marked-naming': at(2),
  'file-writer.renamed': at(1),
  'file-writer.published': at(3),
  'file-writer.files-written': at(2),
  'file-writer.file-published': at(2),
  'file-writer.traces-removed': at(2),
  'receipt-intake.expected': at(2),
  'receipt-intake.taken': at(3),
  'receipt-dispatch.claimed': at(1),
  'receipt-dispatch.sent': at(2),
  'receipt-dispatch.settled': at(2),
  'receipt-dispatch.ordered-again': at(1),
  'notification.claimed': [...at(1), ...ofGroup, ...at(1, { isIdle: true, provoke: askForTest })],
  'notification.posted': [...at(1), ...ofGroup],
  'notification.settled': [...at(1), ...ofGroup],
  'notification.certificates-raised': at(1, { provoke: letCertificatesEnd }),
  'notification.plugin-failed-raised': at(1, { provoke: startBroken }),
  'notification.storage-failed-noted': at(1, { isIdle: true, provoke: loseStore, mend: bringStoreBack }),
  'clock.ticked': at(2),
  'clock.reclaimed': at(1, { provoke: abandonClaim }),
  'clock.overdue-failed': at(1, { provoke: awaitReceipt }),
  'clock.receipts-expired': at(1, { provoke: expireReceipt }),
  'clock.stalled': at(1, { provoke: stall }),
  'clock.announced': at(2),
}

/** Kills at the points whose names begin so, one after the other, and looks at what each next start makes of it. */
export async function killAtPoints(t: Test, prefixes: readonly string[]): Promise<Lane> {
  const overwrites = prefixes.includes('file-writer.')
  const lane = await Lane.open(t, {
    overwrites,
    asynchronous: prefixes.includes('receipt-'),
    notifies: prefixes.includes('notification.'),
  })
  const verified = new Set<string>()
  await holds(t, lane, 'without a kill', verified)
  await lane.start()
  for (const [name, cases] of Object.entries(CASES)) {
    if (!prefixes.some((prefix) => name.startsWith(prefix))) continue
    const point = name as CrashPoint
    for (const each of cases) {
      await kill(lane, point, each)
      await lane.start()
      await lane.untilQuiet()
      const of = each.instance ?? each.thread
      await holds(t, lane, `${point}${of === null ? '' : ` of ${of}`}`, verified)
    }
  }
  await nothingLeft(t, lane)
  t.comment(`${lane.kills} kills; the longest recovery took ${Math.round(lane.longestRecoveryMs)} ms`)
  return lane
}

async function kill(
  lane: Lane,
  point: CrashPoint,
  { thread, instance, hit, afterKillAt, isIdle, provoke, mend }: CrashCase,
): Promise<void> {
  const { plans, load } = lane
  if (afterKillAt !== null) {
    plans.make({ point: afterKillAt, thread, instance, hit: 1 })
    load.feed()
    await lane.untilKilled()
    plans.make({ point, thread, instance, hit })
    await lane.start()
  } else {
    plans.make({ point, thread, instance, hit })
    if (!isIdle) load.feed()
    await provoke?.(lane)
  }
  await lane.untilKilled()
  plans.clear()
  await mend?.(lane)
}

/** A pass that meets a failure is begun anew after a minute. */
const LONGEST_REMOVAL_MS = 240_000

/** What a kill left in the payload store is noted, and removed a day later: here, by a start after that day. */
export async function nothingLeft(t: Test, lane: Lane): Promise<void> {
  const found = await leftovers(lane)
  t.comment(`${lane.kills} kills left ${found.length} payloads without a message`)
  // The first pass begins with the process, and may have come before the last of them.
  const isNoted = async (): Promise<boolean> => {
    const { rows } = await lane.pool.query<{ name: string }>('select name from payload_leftover')
    const noted = new Set(rows.map(({ name }) => name))
    return found.every((name) => noted.has(name.replace('.incoming/', '')))
  }
  await restart(lane)
  await until(isNoted, LONGEST_REMOVAL_MS)
  await lane.pool.query(`update payload_leftover set found_at = found_at - interval '25 hours'`)
  await restart(lane)
  // The kill of a restart may leave something itself, such as what tries the store out: its day begins then.
  const stillThere = async () => (await leftovers(lane)).filter((name) => found.includes(name))
  await until(async () => (await stillThere()).length === 0, LONGEST_REMOVAL_MS)
  t.same(await stillThere(), [], 'no orphan is left')
}

async function restart(lane: Lane): Promise<void> {
  await lane.kill()
  await lane.start()
  await lane.untilListening()
}

/** Asks for another delivery of what the poster has delivered. */
async function redeliver({ pool, load }: Lane): Promise<void> {
  const { rows } = await pool.query<{ id: number; message_id: string }>(
    `select id, message_id from delivery where target = 'poster' and state = 'delivered' order by id limit 1`,
  )
  for (const { id, message_id } of rows) load.redeliver(message_id, id)
}

async function redispatch(lane: Lane): Promise<void> {
  lane.load.redispatch(await waitForAbsent(lane))
}

async function stall(lane: Lane): Promise<void> {
  await waitForAbsent(lane)
  await lane.letAbsentStall()
}

/** Another node claims a delivery, and is never heard of again. */
async function abandonClaim(lane: Lane): Promise<void> {
  await waitForAbsent(lane)
  await claim(lane.pool, { target: ABSENT, limit: 1, owner: 'gone/absent/run/1', leaseSeconds: 1 })
}

/** Another node sends a message, whose receipt never comes. */
async function awaitReceipt(lane: Lane): Promise<void> {
  await waitForAbsent(lane)
  const owner = { target: ABSENT, limit: 1, owner: 'gone/absent/run/1', leaseSeconds: 600 }
  const [claimed] = await claim(lane.pool, owner)
  if (claimed === undefined) throw new Error('Nothing was claimed')
  await settle(lane.pool, [
    {
      deliveryId: claimed.id,
      messageId: claimed.message_id,
      fencing: claimed.fencing,
      outcome: { state: 'awaiting_ack', deadlineSeconds: 0 },
      protocols: null,
      stage: null,
      line: null,
    },
  ])
}

/** A receipt is owed that nobody has taken in time. */
async function expireReceipt({ pool }: Lane): Promise<void> {
  await pool.query(
    `insert into receipt_dispatch (message_id, receiver, url, next_attempt_at, expires_at)
     select id, 'gone', 'http://127.0.0.1:9/', exchange_time(), exchange_time() from message
     where source = 'receiver' order by id limit 1`,
  )
}

/** As some weeks before their end. */
async function letCertificatesEnd({ pool }: Lane): Promise<void> {
  await pool.query(`update certificate set not_after = now() + interval '10 days'`)
}

/** Several instances fail at one moment, one of them twice: of these the notifier that groups tells once, in one post. */
async function failSeveral({ pool, kills }: Lane): Promise<void> {
  await pool.query(
    `select raise_plugin_failed('file-writer', 'failing-${kills}-' || failing.number, 'test', 'a reason',
       now() + make_interval(secs => failing.number + failing.time))
     from (values (1, 0), (2, 0), (3, 0), (1, 9)) failing (number, time)`,
  )
}

/** Somebody starts an instance that fails. It is killed before it answers. */
async function startBroken(lane: Lane): Promise<void> {
  await askAndForget(lane, `/services/file-writer/${BROKEN}/start`)
}

async function askForTest(lane: Lane): Promise<void> {
  await askAndForget(lane, `/plugins/configs/notification-webhook/${OPERATORS}/test`)
}

async function askAndForget(lane: Lane, path: string): Promise<void> {
  await lane.untilListening()
  const headers = { 'Content-Type': 'application/json' }
  void fetch(`${lane.url}/api/v1${path}`, { method: 'POST', headers, body: '{}' }).catch(() => undefined)
}

async function loseStore(lane: Lane): Promise<void> {
  const { payloads } = lane.site.folders
  lane.lostStores += 1
  await rename(payloads, `${payloads}-away`)
  // Not even its place can be made again.
  await writeFile(payloads, '')
}

async function bringStoreBack({ site }: Lane): Promise<void> {
  const { payloads } = site.folders
  await rm(payloads)
  await rename(`${payloads}-away`, payloads)
}

/** Queues a delivery that no target takes; answers its message. */
async function waitForAbsent({ pool, load }: Lane): Promise<string> {
  await load.post(ABSENT)
  const { rows } = await pool.query<{ message_id: string }>(
    `select message_id from delivery where target = '${ABSENT}' and state = 'queued'`,
  )
  if (rows[0] === undefined) throw new Error('No delivery waits')
  return rows[0].message_id
}
