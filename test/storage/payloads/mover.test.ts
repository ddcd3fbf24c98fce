import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import type { Pool } from 'pg'
import { PAYLOAD_STAGES } from '../../../storage/exchange/states.ts'
import { openStage, readJournal, readStage } from '../../../storage/payloads/journal.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import { moveBatch } from '../../../storage/payloads/mover.ts'
import type { PayloadItem } from '../../../storage/payloads/store.ts'
import { execute, query, transaction } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { createTestDatabase } from '../../support/database.ts'
import { runScript, temporaryDirectory, until } from '../../support/processes.ts'
import { newMessage } from '../exchange/fixture.ts'

t.setTimeout(300_000)

const LIMIT_BYTES = 100_000

async function fillJournal(pool: Pool, messages: number): Promise<PayloadItem[]> {
  const items = Array.from({ length: messages }, () => randomUUID()).flatMap((messageId) =>
    PAYLOAD_STAGES.map((stage) => ({ messageId, stage, bytes: randomBytes(2000) })),
  )
  const text =
    'insert into journal (message_id, stage, bytes) select * from unnest($1::uuid[], $2::text[], $3::bytea[])'
  const columns = [
    items.map((item) => item.messageId),
    items.map((item) => item.stage),
    items.map((item) => item.bytes),
  ]
  await execute(pool, text, columns)
  return items
}

const journalSize = async (pool: Pool) =>
  (await query<{ rows: number }>(pool, 'select count(*) as rows from journal'))[0]?.rows

void t.test('the mover empties the journal into the store, a batch at a time', async (t) => {
  const { pool } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  const items = await fillJournal(pool, 5)
  t.equal(await moveBatch(pool, store, { limit: 15 }), 15)
  t.equal(await moveBatch(pool, store, { limit: 15 }), 5)
  t.equal(await moveBatch(pool, store, { limit: 15 }), 0)
  t.equal(await journalSize(pool), 0)
  for (const { messageId, stage, bytes } of items)
    t.ok(bytes.equals(await readFile(join(directory, messageId, stage))))
})

void t.test('a stage is found wherever it is, and its digest is checked in both places', async (t) => {
  const { pool } = await createTestDatabase(t)
  const store = await LocalStore.open(await temporaryDirectory(t))
  const [item] = await fillJournal(pool, 1)
  if (item === undefined) throw new Error('The journal is empty')
  const { messageId, stage, bytes } = item
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  for (const place of ['journal', 'store']) {
    t.ok(bytes.equals(await buffer(await openStage(pool, store, messageId, stage, { sha256 }))), place)
    t.ok(bytes.equals(await readStage(pool, store, messageId, stage, LIMIT_BYTES, { sha256 })), place)
    const other = { sha256: '0'.repeat(64) }
    await t.rejects(
      readStage(pool, store, messageId, stage, LIMIT_BYTES, other),
      /differs from what was stored/,
    )
    await t.rejects(readStage(pool, store, messageId, stage, 1999, { sha256 }), /is larger than 1999 bytes/)
    t.equal((await readJournal(pool, [item])).has(`${messageId}/${stage}`), place === 'journal')
    await moveBatch(pool, store, { limit: 10 })
  }
  await t.rejects(openStage(pool, store, randomUUID(), 'unpacked'), {
    code: 'NOT_FOUND',
    details: { stage: 'unpacked' },
  })
})

void t.test(
  'every read is held against the digest of the record, also of who does not know it',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    const directory = await temporaryDirectory(t)
    const store = await LocalStore.open(directory)
    const message = newMessage()
    await accept(pool, [message])
    t.equal(String(await buffer(await openStage(pool, store, message.id, 'unpacked'))), 'payload')
    await t.rejects(openStage(pool, store, message.id, 'receipt'), { code: 'NOT_FOUND' })
    await query(pool, `update journal set bytes = 'paYload'`)
    const damaged = { name: 'StorageError', problem: 'damaged', message: /differs from what was stored/ }
    await t.rejects(readStage(pool, store, message.id, 'unpacked', LIMIT_BYTES), damaged)
    t.equal(await moveBatch(pool, store, { limit: 10 }), 1)
    await t.rejects(readStage(pool, store, message.id, 'unpacked', LIMIT_BYTES), damaged)
    await rm(join(directory, message.id), { recursive: true })
    await t.rejects(openStage(pool, store, message.id, 'unpacked'), {
      name: 'StorageError',
      problem: 'missing',
      message: `The payload ${message.id}/unpacked is recorded and not stored: it is not in the directory ${directory}`,
    })
  },
)

void t.test('one stage that cannot be moved keeps no other waiting', async (t) => {
  const { pool } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  const items = await fillJournal(pool, 3)
  const blocked = items[0]?.messageId ?? ''
  await writeFile(join(directory, blocked), 'in the way')
  await t.rejects(moveBatch(pool, store, { limit: 100 }), { name: 'StorageError', problem: 'unusable' })
  t.equal(await journalSize(pool), PAYLOAD_STAGES.length, 'the others are moved')
  for (const { messageId, stage, bytes } of items) {
    if (messageId !== blocked) t.ok(bytes.equals(await readFile(join(directory, messageId, stage))))
  }
  await rm(join(directory, blocked))
  await mkdir(join(directory, blocked))
  t.equal(await moveBatch(pool, store, { limit: 100 }), PAYLOAD_STAGES.length)
})

void t.test('a reader finds each stage at every moment of its move', async (t) => {
  const { pool } = await createTestDatabase(t)
  const store = await LocalStore.open(await temporaryDirectory(t))
  const items = await fillJournal(pool, 10)
  const progress = { moving: true }
  const move = async () => {
    while ((await moveBatch(pool, store, { limit: 2 })) > 0);
    progress.moving = false
  }
  const read = async () => {
    let reads = 0
    while (progress.moving) {
      for (const { messageId, stage, bytes } of items) {
        const sha256 = createHash('sha256').update(bytes).digest('hex')
        const found = await readStage(pool, store, messageId, stage, LIMIT_BYTES, { sha256 })
        if (!bytes.equals(found)) t.fail('other bytes')
        reads += 1
      }
    }
    return reads
  }
  const [, ...reads] = await Promise.all([move(), read(), read()])
  t.ok(reads.every((count) => count > 0))
})

void t.test('several movers share the work', async (t) => {
  const { pool } = await createTestDatabase(t)
  const store = await LocalStore.open(await temporaryDirectory(t))
  await fillJournal(pool, 30)
  const moved = await Promise.all([1, 2, 3].map(() => moveBatch(pool, store, { limit: 40 })))
  t.same(moved, [40, 40, 40])
  t.equal(await journalSize(pool), 0)
})

void t.test('a stage that is not committed yet stays where it is', async (t) => {
  const { pool } = await createTestDatabase(t)
  const store = await LocalStore.open(await temporaryDirectory(t))
  await transaction(pool, async (client) => {
    await execute(client, `insert into journal (message_id, stage, bytes) values ($1, 'unpacked', '\\x00')`, [
      randomUUID(),
    ])
    t.equal(await moveBatch(pool, store, { limit: 10 }), 0)
  })
  t.equal(await moveBatch(pool, store, { limit: 10 }), 1)
})

void t.test('when the store fails the stages stay in the journal', async (t) => {
  const { pool } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const store = await LocalStore.open(directory)
  const items = await fillJournal(pool, 3)
  const drafts = join(directory, '.incoming')
  await rm(drafts, { recursive: true })
  await writeFile(drafts, 'in the way')
  await t.rejects(moveBatch(pool, store, { limit: 100 }), {
    name: 'StorageError',
    message: /^12 payloads cannot be stored/,
  })
  t.equal(await journalSize(pool), items.length)
  await rm(drafts)
  await LocalStore.open(directory)
  t.equal(await moveBatch(pool, store, { limit: 100 }), items.length)
})

void t.test('a mover that is killed at any moment loses nothing', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const directory = await temporaryDirectory(t)
  const items = await fillJournal(pool, 60)
  for (const batches of [1, 2, 3, 5]) {
    // It does one more at most than it has told of: so there is always something left, however late it is killed.
    const mover = runScript(t, 'mover-child.ts', [url, directory, String(batches + 1)])
    for (let batch = 0; batch < batches; batch += 1) await mover.line()
    await mover.kill('SIGKILL')
    // The server notices a lost connection, and frees what it locked, a moment later.
    await until(async () => {
      const rows = await query(
        pool,
        `select from pg_stat_activity where application_name = 'mover' and datname = current_database()`,
      )
      return rows.length === 0
    })
    const journal = await readJournal(pool, items)
    for (const { messageId, stage, bytes } of items) {
      if (journal.has(`${messageId}/${stage}`)) continue
      if (!bytes.equals(await readFile(join(directory, messageId, stage)))) t.fail('a stage was lost')
    }
    t.ok(journal.size > 0, `${journal.size} stages left`)
  }
  const store = await LocalStore.open(directory)
  while ((await moveBatch(pool, store, { limit: 100 })) > 0);
  for (const { messageId, stage, bytes } of items) {
    if (!bytes.equals(await readFile(join(directory, messageId, stage)))) t.fail('a stage was lost')
  }
})
