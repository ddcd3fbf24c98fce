import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLog } from '../runtime/log.ts'
import { query } from '../storage/postgres/pool.ts'
import { startPolling } from '../test/actors/file/polling.ts'
import { createTestDatabase } from '../test/support/database.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'

const LOOK_MS = 500
const PARTS = 4

/**
 * Files that lie in one folder when a poller starts: how fast they become messages, are moved away and dispatched, also
 * by quarters of the way (a pace that falls with the number would show), and the most memory of this process.
 */
export async function fileIntake(options: ScenarioOptions): Promise<Figures> {
  const { messages = 100_000, sizeBytes = 1_000 } = options
  const ends: (() => Promise<void>)[] = []
  const t = { teardown: (end: () => Promise<void>) => ends.push(end) }
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  ends.push(() => rm(directory, { recursive: true, force: true }))
  try {
    const { url, pool } = await createTestDatabase(t)
    await query(pool, `insert into organization (name) values ('acme')`)
    await query(pool, `insert into partner (name) values ('globex')`)
    const folder = join(directory, 'base', 'globex')
    await mkdir(folder, { recursive: true })
    const bytes = Buffer.alloc(sizeBytes, 'x')
    for (let index = 0; index < messages; index += 1) await writeFile(join(folder, `${index}.edi`), bytes)
    const beganMs = performance.now()
    const poller = await startPolling({
      databaseUrl: url,
      nodeId: 'node',
      directory,
      log: createLog('warn'),
      settings: { settle_seconds: 2 },
    })
    ends.push(() => poller.stop())
    const reached: number[] = []
    let peak = 0
    let firstMs: number | null = null
    while (reached.length < PARTS) {
      await sleep(LOOK_MS)
      peak = Math.max(peak, process.memoryUsage.rss())
      const [row] = await query<{ count: number }>(
        pool,
        `select count(*) from message where stage <> 'accepted'`,
      )
      const count = row?.count ?? 0
      if (count > 0) firstMs ??= performance.now()
      while (reached.length < PARTS && count >= (messages * (reached.length + 1)) / PARTS)
        reached.push(performance.now())
    }
    const rates = reached.map((atMs, part) => {
      const sinceMs = reached[part - 1] ?? firstMs ?? beganMs
      return [
        `quarter_${part + 1}_files_per_s`,
        Math.round(messages / PARTS / ((atMs - sinceMs) / 1000)),
      ] as const
    })
    const seconds = ((reached.at(-1) ?? 0) - beganMs) / 1000
    return {
      parameters: { messages, bytes_each: sizeBytes },
      figures: {
        seconds_in_all: seconds,
        files_per_s: Math.round(messages / seconds),
        ...Object.fromEntries(rates),
        peak_rss_mb: Math.round(peak / 1e6),
      },
    }
  } finally {
    for (const end of ends.toReversed()) await end()
  }
}
