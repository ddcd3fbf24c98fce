import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Test } from 'tap'
import { reasonOf } from '../../../runtime/errors.ts'
import { makeCertificate } from '../../support/certificates.ts'
import { createTestDatabase } from '../../support/database.ts'
import { temporaryDirectory, until } from '../../support/processes.ts'
import { Waybill } from '../../support/waybill.ts'
import { KillPlans } from './kill-plan.ts'
import { Load } from './load.ts'
import { startPeers, type Peers } from './peers.ts'
import { ABSENT, BROKEN, setUpSite, type Site } from './site.ts'

/** What a busy machine may take longer than the guarantee says. */
const LIMIT_MS = 240_000
const LISTENS = / listens on (http:\/\/\S+)/
const MAX_FAILED_STARTS = 3
/** A look asks the database and the folders. */
const LOOK_MS = 100

interface Life {
  readonly child: ChildProcess
  readonly output: readonly string[]
  readonly startedMs: number
  readonly startedAt: Date
}

/** One service with its database, folders and peers, that is killed and started again and again, under load. */
export class Lane {
  readonly pool: Pool
  readonly site: Site
  readonly peers: Peers
  readonly load: Load
  readonly plans: KillPlans
  /** How long the longest recovery took, from a start to when nothing was left to do. */
  longestRecoveryMs = 0
  kills = 0
  /** How often the payload store was away. */
  lostStores = 0
  /** How often it ended by itself before it listened. */
  failedStarts = 0
  readonly #directory: string
  readonly #env: Readonly<Record<string, string>>
  readonly #notifies: boolean
  #life: Life | null = null

  private constructor(parts: {
    readonly pool: Pool
    readonly site: Site
    readonly peers: Peers
    readonly keys: ConstructorParameters<typeof Load>[0]['keys']
    readonly directory: string
    readonly env: Readonly<Record<string, string>>
    readonly asynchronous: boolean
    readonly notifies: boolean
  }) {
    const { pool, site, peers, keys, directory, env, asynchronous, notifies } = parts
    this.pool = pool
    this.site = site
    this.peers = peers
    this.#directory = directory
    this.#env = env
    this.#notifies = notifies
    this.plans = new KillPlans(join(directory, 'kill-plan'), env['NODE_COMPILE_CACHE'] ?? '')
    const receiptUrl = asynchronous ? peers.as2Url : null
    this.load = new Load({ site, keys, receiptUrl, url: () => this.url })
  }

  /** Configures everything, and exchanges a few messages with a process that ends in order. None runs afterwards. */
  static async open(
    t: Test,
    { overwrites = false, asynchronous = false, notifies = false } = {},
  ): Promise<Lane> {
    const { url, pool } = await createTestDatabase(t)
    const directory = await temporaryDirectory(t)
    const keys = {
      ours: makeCertificate({ commonName: 'acme edi' }),
      theirs: makeCertificate({ commonName: 'globex edi' }),
    }
    const peers = await startPeers(t, keys)
    const env = {
      DATABASE_URL: url,
      LOG_LEVEL: 'warn',
      // Links are the same after each start: what is posted again has the same body.
      PUBLIC_URL: 'http://localhost:8080',
      // Written by a process that ends in order, and then read by all that are killed.
      NODE_COMPILE_CACHE: join(directory, 'compiled'),
    }
    const first = await Waybill.start({ directory, env })
    const site = await setUpSite(first, { directory, peers, keys, overwrites, asynchronous, notifies })
    await first.stop()
    const lane = new Lane({ pool, site, peers, keys, directory, env, asynchronous, notifies })
    t.teardown(async () => {
      lane.load.close()
      await lane.kill()
    })
    await lane.start()
    lane.load.feed()
    await lane.untilQuiet()
    await lane.stop()
    return lane
  }

  /** Starts the process, and does not wait for it. */
  async start(): Promise<void> {
    const { nodeArguments } = this.plans
    const [startedMs, startedAt] = [performance.now(), new Date()]
    const life = await Waybill.spawn({ directory: this.#directory, env: this.#env, nodeArguments })
    this.#life = { ...life, startedMs, startedAt }
  }

  get isRunning(): boolean {
    const child = this.#life?.child
    return child !== undefined && child.exitCode === null && child.signalCode === null
  }

  get startedMs(): number {
    return this.#life?.startedMs ?? 0
  }

  get output(): readonly string[] {
    return this.#life?.output ?? []
  }

  async stop(): Promise<void> {
    const child = this.#life?.child
    if (child === undefined) return
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
  }

  /** Ends it as a power failure would. */
  async kill(): Promise<void> {
    const child = this.#life?.child
    if (child === undefined || !this.isRunning) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
    this.kills += 1
  }

  /** Waits until the plan of the test has killed it. */
  async untilKilled(): Promise<void> {
    await this.#until('It was not killed at the point', () => !this.isRunning)
    if (this.#life?.child.signalCode !== 'SIGKILL' || this.plans.done() === null)
      throw new Error(`It ended by itself\n${this.output.join('\n')}`)
    this.kills += 1
  }

  async untilListening(): Promise<void> {
    await this.#until('It does not listen', () => this.url !== null)
  }

  /** Waits until everything is confirmed, settled and at its place. */
  async untilQuiet(): Promise<void> {
    await this.#until('Something is stuck', async () => {
      if (!this.isRunning) await this.#startAgain()
      await sleep(LOOK_MS)
      return this.load.isQuiet && (await this.#isDone())
    })
    this.longestRecoveryMs = Math.max(this.longestRecoveryMs, performance.now() - this.startedMs)
  }

  /** The deliveries of the target that does not run, as if they had waited for long. */
  async letAbsentStall(): Promise<void> {
    await this.pool.query(`delete from target_work where target = '${ABSENT}'`)
    await this.pool.query(
      `update delivery set waiting_since = waiting_since - interval '1 day'
       where target = '${ABSENT}' and state = 'queued'`,
    )
  }

  /** As a service manager does: a database that is too slow for a start ends it, and the next one may find it in time. */
  async #startAgain(): Promise<void> {
    const hasListened = this.output.some((line) => LISTENS.test(line))
    if (hasListened || this.failedStarts >= MAX_FAILED_STARTS)
      throw new Error(`It has ended by itself\n${this.output.join('\n')}`)
    this.failedStarts += 1
    await this.start()
  }

  async #isDone(): Promise<boolean> {
    const { folders } = this.site
    for (const party of ['globex', 'nobody'])
      if ((await readdir(join(folders.outbox, party))).length > 0) return false
    type Counts = Record<'open' | 'absent' | 'taken' | 'receipts' | 'journal' | 'untold' | 'broken', number>
    const { rows } = await this.pool.query<Counts>(
      `select (select count(*) from message where stage <> 'settled' or source_reference is not null)::int as open,
        (select count(*) from delivery where target = '${ABSENT}' and state = 'queued')::int as absent,
        (select count(*) from message where source = 'poller')::int as taken,
        (select count(*) from receipt_dispatch)::int as receipts,
        (select count(*) from notification where outcome = 'queued')::int as untold,
        (select count(*) from journal)::int as journal,
        (select count(*) from alert where subject_id = 'file-writer:${BROKEN}' and alert_time >= $1)::int as broken`,
      [this.#life?.startedAt],
    )
    const [found] = rows
    if (found === undefined) return false
    if (found.absent > 0) await this.letAbsentStall()
    const dropped = this.load.items.filter(({ source }) => source === 'poller').length
    if (found.open > 0 || found.receipts > 0 || found.journal > 0 || found.taken < dropped) return false
    // Each start has raised its own, after which none is raised by itself.
    if (found.untold > 0 || (this.#notifies && found.broken === 0)) return false
    for (const directory of Object.values(folders.written))
      if ((await readdir(join(directory, '.waybill'))).length > 0) return false
    return true
  }

  /** Of the API; null while no process listens. */
  get url(): string | null {
    if (!this.isRunning) return null
    for (const line of this.output) {
      const url = LISTENS.exec(line)?.[1]
      if (url !== undefined) return url
    }
    return null
  }

  async #until(otherwise: string, holds: () => boolean | Promise<boolean>): Promise<void> {
    try {
      await until(holds, LIMIT_MS)
    } catch (error) {
      const { rows } = await this.pool.query(
        `select m.id, m.stage, m.status, m.source, m.source_reference, d.id as delivery, d.target, d.state, d.attempts,
           d.last_error, d.lease_owner, d.cut_offs from message m left join delivery d on d.message_id = m.id
         where m.stage <> 'settled' or m.source_reference is not null limit 20`,
      )
      const open = rows.map((row) => JSON.stringify(row)).join('\n')
      const told = this.output.slice(-50).join('\n')
      throw new Error(`${otherwise}: ${reasonOf(error)}; open:\n${open}\n${told}`, { cause: error })
    }
  }
}
