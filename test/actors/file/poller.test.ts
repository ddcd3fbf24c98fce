import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import startPoller from '../../../actors/file/poller.ts'
import { filePollerSettings } from '../../../actors/file/settings.ts'
import { systemClock } from '../../../runtime/clock.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'
import { temporaryDirectory, until } from '../../support/processes.ts'
import { routesTo } from '../../storage/exchange/fixture.ts'

/** A poller over `base`, moving to `done`, in a directory of the test. */
async function prepare(t: Test) {
  const { url, pool, log } = await createTestDatabase(t)
  await routesTo(pool, 'target')
  await query(pool, `insert into organization (name) values ('acme')`)
  await query(pool, `insert into partner (name) values ('globex')`)
  const directory = await temporaryDirectory(t)
  const base = join(directory, 'base')
  const done = join(directory, 'done')
  await mkdir(join(base, 'globex'), { recursive: true })
  const start = async () => {
    const ending = new AbortController()
    const running = await startPoller({
      type: 'file-poller',
      name: 'source',
      node: 'node',
      settings: filePollerSettings.parse({
        base_directory: base,
        processed_directory: done,
        from: 'acme',
        polling_interval: 1,
        settle_seconds: 0,
      }),
      process: {
        databaseUrl: url,
        nodeId: 'node',
        secretKey: randomBytes(32).toString('base64'),
        payloadDirectory: join(directory, 'payloads'),
        product: 'Waybill',
      },
      log,
      clock: systemClock,
      signal: ending.signal,
      announce: async () => undefined,
      onAnnouncement: () => undefined,
      settled: () => undefined,
      drained: () => undefined,
      fail: () => undefined,
    })
    t.teardown(async () => {
      ending.abort()
      await running.stop()
    })
  }
  const statuses = async () =>
    (await query<{ status: string }>(pool, 'select status from message order by id')).map(
      ({ status }) => status,
    )
  return { pool, base, done, start, statuses }
}

void t.test('a poller that cannot move a file waits with its message, and goes on when it can', async (t) => {
  const { base, done, start, statuses } = await prepare(t)
  await mkdir(done)
  await writeFile(join(done, 'globex'), 'a file where a directory should be')
  await writeFile(join(base, 'globex', 'a.edi'), 'payload')
  await start()
  await until(async () => (await statuses()).length > 0)
  await rm(join(done, 'globex'))
  await until(async () => (await statuses()).includes('InProgress'))
  t.same(await statuses(), ['InProgress'])
  t.same(await readdir(join(done, 'globex')), ['a.edi'])
})

void t.test('a message whose dispatch failed is dispatched without a restart', async (t) => {
  const { pool, base, start, statuses } = await prepare(t)
  await query(
    pool,
    `create function refuse() returns trigger language plpgsql as $$ begin raise 'not now'; end $$;
     create trigger refuse before update on message for each row execute function refuse()`,
  )
  await writeFile(join(base, 'globex', 'a.edi'), 'payload')
  await start()
  await until(async () => (await statuses()).length > 0)
  await until(async () => (await readdir(join(base, 'globex'))).length === 0)
  await query(pool, 'drop trigger refuse on message')
  await until(async () => (await statuses()).includes('InProgress'))
  t.same(await statuses(), ['InProgress'])
})

void t.test('a poller does not start where a link leads the processed files back to the base', async (t) => {
  const { base, done, start } = await prepare(t)
  await symlink(base, done)
  await t.rejects(start(), { message: /is or lies in/ })
})
