import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createLog } from '../../../runtime/log.ts'
import { findMessage } from '../../../storage/exchange/messages.ts'
import { Submissions } from '../../../storage/exchange/submissions.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { openPool, query } from '../../../storage/postgres/pool.ts'
import { ManualClock } from '../../runtime/manual-clock.ts'
import { createTestDatabase } from '../../support/database.ts'
import { databaseProxy } from '../../support/database-proxy.ts'
import { routesTo } from './fixture.ts'

const WAIT_MS = 60_000
const LOOK_MS = 20
/** By then it is certain whether a statement whose connection broke was committed. */
const CERTAIN_MS = 120_000

const CONTENT = Buffer.alloc(1_000_000, 'large enough to be stored before its message ')

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WAIT_MS
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`It never came true that ${what}`)
    await sleep(LOOK_MS)
  }
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

t.test(
  'the file of a message whose commit got no answer stays exactly as long as its message may exist',
  async (t) => {
    const { url, pool: direct } = await createTestDatabase(t)
    await routesTo(direct, 'target')
    await query(direct, `insert into organization (name) values ('acme')`)
    await query(direct, `insert into partner (name) values ('globex')`)
    const directory = t.testdir()
    const payloads = await LocalStore.open(directory)
    const proxy = await databaseProxy(t, url)
    const log = createLog('silent')
    const pool = openPool({ url: proxy.url, size: 4, applicationName: 'waybill test', log })
    t.teardown(() => pool.end())
    const clock = new ManualClock()
    const submissions = new Submissions({ pool, payloads, clock })

    // Nobody can store a message until this ends.
    const lock = await direct.connect()
    await lock.query('begin; lock table message in share mode')
    // Of a long statement the server shows the beginning alone.
    const waiting = async (): Promise<number[]> => {
      const rows = await query<{ pid: number }>(
        direct,
        `select pid from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and query like '%with input as materialized%'
       order by query_start`,
      )
      return rows.map(({ pid }) => pid)
    }
    const send = async (waitingBefore: number) => {
      const file = await submissions.take({
        fileName: 'a.edi',
        contentType: 'text/plain',
        bytes: Readable.from([CONTENT], { objectMode: false }),
      })
      const submission = {
        from: 'acme',
        to: 'globex',
        target: 'target',
        sender: 'somebody',
        idempotencyKey: null,
      }
      const sent = submissions.send([file], submission, log)
      sent.catch(() => undefined)
      await until('the statement waits', async () => (await waiting()).length === waitingBefore + 1)
      return { file, sent }
    }
    const lost = await send(0)
    const committed = await send(1)
    const [first] = await waiting()
    await proxy.close()
    await t.rejects(lost.sent, 'the sender is told that it has failed')
    await t.rejects(committed.sent)
    for (const { file } of [lost, committed]) await file.discard()
    t.ok(await isThere(join(directory, lost.file.messageId)), 'nobody knows yet')

    await query(direct, 'select pg_terminate_backend($1)', [first])
    await until('it has ended', async () => (await waiting()).length === 1)
    await lock.query('commit')
    lock.release()
    await until('the other one is committed', async () => {
      return (await findMessage(direct, committed.file.messageId)) !== null
    })
    await proxy.open()
    clock.advance(CERTAIN_MS)
    await until('the file without a message is gone', async () => {
      return !(await isThere(join(directory, lost.file.messageId)))
    })
    t.equal(await findMessage(direct, lost.file.messageId), null)
    t.ok(CONTENT.equals(await readFile(join(directory, committed.file.messageId, 'unpacked'))))
    t.match(await findMessage(direct, committed.file.messageId), { deliveries: [{ target: 'target' }] })
  },
)
