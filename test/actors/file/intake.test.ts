import { chmod, chown, mkdir, readdir, symlink, utimes, writeFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Pool, PoolClient, QueryConfig } from 'pg'
import t, { type Test } from 'tap'
import { Intake } from '../../../actors/file/intake.ts'
import type { Candidate } from '../../../actors/file/candidate.ts'
import { errorOf } from '../../../actors/file/folder-caller.ts'
import { Warnings } from '../../../actors/file/warnings.ts'
import { createLog } from '../../../runtime/log.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { query, transaction } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'
import { isRoot, ORDINARY_USER, temporaryDirectory } from '../../support/processes.ts'
import { routesTo } from '../../storage/exchange/fixture.ts'
import { openLocalFolder } from './local-folder.ts'

type Fault = 'lose the answer of accept' | 'fail dispatch' | 'fail accept'

/** A line of the log: level, path, message. */
type Line = readonly [string, string, string]

async function begin(t: Test) {
  const { pool } = await createTestDatabase(t)
  await routesTo(pool, 'target')
  await query(pool, `insert into organization (name) values ('acme')`)
  await query(pool, `insert into partner (name) values ('globex')`)
  const directory = await temporaryDirectory(t)
  const [base, processed, errors] = [
    join(directory, 'base'),
    join(directory, 'done'),
    join(directory, 'error'),
  ]
  for (const path of [base, processed, errors]) await mkdir(path)
  const store = await LocalStore.open(join(directory, 'payloads'))
  const lines: Line[] = []
  const log = createLog('silent')
  for (const level of ['warn', 'error'] as const) {
    log[level] = (fields: unknown, message?: string) => {
      const { path = '' } = fields as { path?: string }
      lines.push([level, path, message ?? String(fields)])
    }
  }
  const warnings = new Warnings(log)
  const faults = new Set<Fault>()
  const folder = openLocalFolder({
    baseDirectory: base,
    processedDirectory: processed,
    errorDirectory: errors,
    depth: 1,
    filePattern: '*.*',
  })
  const onBrokenLine = faulty(pool, faults)
  const open = () =>
    new Intake({
      pool: onBrokenLine,
      store,
      source: 'source',
      folder,
      lease: { assertHeld: () => undefined, commit: (work) => transaction(onBrokenLine, work) },
      partiesOf: ({ path }) => ({ from: 'acme', to: dirname(path) }),
      warnings,
    })
  let intake = open()
  const look = async (): Promise<Candidate[]> => {
    const found: Candidate[] = []
    for (let page = await folder('look', { begin: true }); page !== null;) {
      found.push(...page.candidates)
      intake.noteLeft(page.left)
      for (const { path, text, failure } of page.oddities)
        warnings.warn(path, failure === null ? null : errorOf(failure), text)
      page = await folder('look', { begin: false })
    }
    return found.toSorted((one, other) => (one.path < other.path ? -1 : 1))
  }
  return {
    pool,
    directory,
    base,
    processed,
    errors,
    store,
    lines,
    faults,
    look,
    take: (files: readonly Candidate[]) => intake.take(files),
    round: async () => {
      await intake.recover()
      await intake.take(await look())
      warnings.endRound()
    },
    restart: () => {
      intake = open()
    },
    put: async (path: string, text = 'payload') => {
      await mkdir(join(base, dirname(path)), { recursive: true })
      await writeFile(join(base, path), text)
    },
    messages: async () =>
      (
        await query<{ file_name: string; status: string }>(
          pool,
          'select file_name, status from message order by file_name, id',
        )
      ).map(({ file_name, status }) => `${file_name} ${status}`),
    files: async (path: string) => (await readdir(path)).toSorted(),
    stored: async () => (await readdir(store.directory)).filter((name) => !name.startsWith('.')),
  }
}

/** The driver's pool on a line that breaks at chosen statements. */
function faulty(pool: Pool, faults: Set<Fault>): Pool {
  const broken = () => new Error('Connection terminated unexpectedly')
  const onLine = <T extends Pool | PoolClient>(line: T, more: (key: string | symbol) => unknown): T =>
    new Proxy(line, {
      get: (target, key) => {
        if (key !== 'query') return more(key)
        return async (config: QueryConfig | string) => {
          const name = typeof config === 'string' ? config : config.name
          if (name === 'dispatch' && faults.delete('fail dispatch')) throw broken()
          if (name === 'accept' && faults.delete('fail accept'))
            return target.query('select 1 from nothing_of_this_name')
          const result = await target.query<object>(config as QueryConfig)
          if (name === 'commit' && faults.delete('lose the answer of accept')) throw broken()
          return result
        }
      },
    })
  const bound = (target: object, key: string | symbol): unknown => {
    const value = Reflect.get(target, key) as unknown
    return typeof value === 'function' ? (value.bind(target) as unknown) : value
  }
  return onLine(pool, (key) =>
    key === 'connect'
      ? async () => {
          const client = await pool.connect()
          return onLine(client, (each) => bound(client, each))
        }
      : bound(pool, key),
  )
}

void t.test('a file that cannot be moved is one message, is told once and holds nobody up', async (t) => {
  const box = await begin(t)
  await box.put('globex/a.edi')
  await box.put('other/b.edi')
  await writeFile(join(box.processed, 'globex'), 'a file where a directory should be')
  await box.put('globex/c.edi')
  for (let round = 0; round < 3; round += 1) await box.round()
  t.same(await box.messages(), ['a.edi Received', 'b.edi Refused', 'c.edi Received'])
  t.same(await box.files(join(box.errors, 'other')), ['b.edi'])
  t.same(
    box.lines.map(([level, path]) => [level, path]),
    [
      ['error', 'globex/a.edi'],
      ['error', 'globex/c.edi'],
    ],
  )
  box.restart()
  await rm(join(box.processed, 'globex'))
  await box.round()
  t.same(await box.messages(), ['a.edi InProgress', 'b.edi Refused', 'c.edi InProgress'])
  t.same(await box.files(join(box.processed, 'globex')), ['a.edi', 'c.edi'])
})

void t.test('a refused file that cannot be moved is one record, over a restart too', async (t) => {
  const box = await begin(t)
  await box.put('nobody/a.edi')
  await box.put('globex/b.edi')
  await writeFile(join(box.errors, 'nobody'), '')
  await box.round()
  box.restart()
  await box.round()
  t.same(await box.messages(), ['a.edi Refused', 'b.edi InProgress'])
  await rm(join(box.errors, 'nobody'))
  await box.round()
  await box.round()
  t.same(await box.files(join(box.errors, 'nobody')), ['a.edi'])
  t.same(await box.messages(), ['a.edi Refused', 'b.edi InProgress'])
})

void t.test(
  'names are numbered past files and directories, and shortened where they are too long',
  async (t) => {
    const box = await begin(t)
    const long = `${'x'.repeat(251)}.edi`
    await mkdir(join(box.processed, 'globex', 'a.edi'), { recursive: true })
    await writeFile(join(box.processed, 'globex', long), '')
    await box.put('globex/a.edi')
    await box.put(`globex/${long}`)
    await box.round()
    t.same(await box.files(join(box.base, 'globex')), [])
    t.same(await box.files(join(box.processed, 'globex')), [
      'a (2).edi',
      'a.edi',
      `${'x'.repeat(247)} (2).edi`,
      long,
    ])
  },
)

void t.test('a message whose dispatch failed is dispatched in the next round', async (t) => {
  const box = await begin(t)
  await box.put('globex/a.edi')
  box.faults.add('fail dispatch')
  await t.rejects(box.round())
  t.same(await box.messages(), ['a.edi Received'])
  await box.round()
  t.same(await box.messages(), ['a.edi InProgress'])
})

void t.test('an acceptance whose answer was lost is not repeated', async (t) => {
  const box = await begin(t)
  await box.put('globex/a.edi')
  await box.put('globex/large.edi', 'x'.repeat(300_000))
  box.faults.add('lose the answer of accept')
  await t.rejects(box.round())
  await box.round()
  await box.round()
  t.same(await box.messages(), ['a.edi InProgress', 'large.edi InProgress'])
  t.equal((await box.stored()).length, 1, 'the payload of a commit stays')
})

void t.test('what was stored for an acceptance that failed is deleted', async (t) => {
  const box = await begin(t)
  await box.put('globex/large.edi', 'x'.repeat(300_000))
  box.faults.add('fail accept')
  await t.rejects(box.round())
  t.same(await box.stored(), [])
  await box.round()
  t.same(await box.messages(), ['large.edi InProgress'])
})

// Root reads everything, so root gives its rights up for the moment.
void t.test('files and folders that cannot be read are told once and hold nobody up', async (t) => {
  const box = await begin(t)
  for (const name of ['globex/a.edi', 'globex/b.edi', 'closed/c.edi']) await box.put(name)
  await box.put('globex/large.edi', 'x'.repeat(300_000))
  await chmod(join(box.base, 'globex/a.edi'), 0)
  await chmod(join(box.base, 'closed'), 0)
  if (isRoot) {
    const all = await readdir(box.directory, { recursive: true })
    for (const path of ['', ...all]) await chown(join(box.directory, path), ORDINARY_USER, ORDINARY_USER)
    process.seteuid?.(ORDINARY_USER)
  }
  try {
    await box.round()
    await box.round()
  } finally {
    if (isRoot) process.seteuid?.(0)
    await chmod(join(box.base, 'closed'), 0o700)
  }
  t.same(await box.messages(), ['b.edi InProgress', 'large.edi InProgress'])
  t.same(
    box.lines.map(([level, path]) => [level, path]),
    [
      ['warn', 'closed'],
      ['warn', 'globex/a.edi'],
    ],
  )
  t.equal((await box.stored()).length, 1)
})

void t.test('a file that changed after its message was committed stays as a new file', async (t) => {
  const box = await begin(t)
  await box.put('globex/a.edi')
  await writeFile(join(box.processed, 'globex'), '')
  await box.round()
  await rm(join(box.processed, 'globex'))
  await box.put('globex/a.edi', 'more than that')
  await utimes(join(box.base, 'globex/a.edi'), 1, 1)
  await box.round()
  t.same(await box.messages(), ['a.edi InProgress', 'a.edi InProgress'])
  t.ok(box.lines.some(([level, , message]) => level === 'warn' && message.includes('changed after')))
})

void t.test('what would lie there for ever is told once a path', async (t) => {
  const box = await begin(t)
  await box.put('globex/deep/a.edi')
  await writeFile(join(box.base, 'shallow.edi'), '')
  await box.put('globex/good.edi')
  await symlink('good.edi', join(box.base, 'globex/link.edi'))
  await writeFile(Buffer.concat([Buffer.from(`${box.base}/globex/`), Buffer.from([0x41, 0xff])]), '')
  await box.round()
  await box.round()
  t.same(await box.messages(), ['good.edi InProgress'])
  t.same(box.lines.map(([level, path]) => `${level} ${path}`).toSorted(), [
    String.raw`warn globex/A\xff`,
    'warn globex/deep',
    'warn globex/link.edi',
    'warn shallow.edi',
  ])
})
