import { createHash } from 'node:crypto'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { journaled } from '../../storage/exchange/stages.ts'
import { LocalStore } from '../../storage/payloads/local-store.ts'
import { moveBatch } from '../../storage/payloads/mover.ts'
import { accept } from '../../storage/sql/accept.ts'
import { startApi } from '../support/api.ts'
import { newMessage } from '../storage/exchange/fixture.ts'

const LARGE = Buffer.alloc(5_000_000, 'a large payload ')

t.test('GET /messages/{id}/payload never serves other bytes than those that were stored', async (t) => {
  const logged: string[] = []
  const log = pino({ level: 'error' }, { write: (line: string) => void logged.push(line) })
  const { client, base, database, directory } = await startApi(t, { log })
  const { pool } = database
  const store = await LocalStore.open(directory)
  const stages = ['unpacked', 'received', 'headers', 'receipt'] as const
  const message = newMessage({
    stages: stages.map((stage) => journaled(stage, Buffer.from(`${stage} bytes`))),
  })
  await accept(pool, [message])
  const path = (stage: string): string => `/messages/${message.id}/payload?stage=${stage}`
  const place = (stage: string): string => join(directory, message.id, stage)

  t.test('from the journal and, once it is moved there, from the store', async (t) => {
    for (const where of ['journal', 'store']) {
      for (const stage of stages) t.equal((await client.get(path(stage))).text, `${stage} bytes`, where)
      t.equal((await client.get(path('message'))).text, 'headers bytes\r\nreceived bytes')
      await moveBatch(pool, store, { limit: 10 })
    }
    t.equal((await readFile(place('unpacked'))).toString(), 'unpacked bytes')
  })

  t.test(
    'a small one that is damaged is 500 PAYLOAD_DAMAGED before any of it, and says nothing of the store',
    async (t) => {
      for (const damage of ['unpacked byteZ', 'unpacked', 'unpacked bytes and more', '']) {
        await writeFile(place('unpacked'), damage)
        const answer = await client.get(path('unpacked'))
        t.equal(answer.status, 500, JSON.stringify(damage))
        t.same(answer.error, {
          code: 'PAYLOAD_DAMAGED',
          message: 'The stored payload unpacked of this message differs from what was stored',
        })
        t.match(logged.at(-1), `The payload ${message.id}/unpacked differs from what was stored`)
      }
      await writeFile(place('received'), 'other')
      t.match(await client.get(path('message')), {
        status: 500,
        error: {
          code: 'PAYLOAD_DAMAGED',
          message: 'The stored payload received of this message differs from what was stored',
        },
      })
      t.equal((await client.get(path('headers'))).status, 200, 'the others are as they were')
    },
  )

  t.test('one that is recorded and lost is 500 PAYLOAD_DAMAGED, not 404', async (t) => {
    await rm(place('receipt'))
    const answer = await client.get(path('receipt'))
    t.equal(answer.status, 500)
    t.same(answer.error, {
      code: 'PAYLOAD_DAMAGED',
      message: 'The stored payload receipt of this message is missing from the storage',
    })
    t.match(logged.at(-1), `/receipt is recorded and not stored: it is not in the directory ${directory}`)
  })

  t.test('a large one that is damaged breaks off', async (t) => {
    const id = newMessage().id
    const { sizeBytes, sha256 } = await store.put(id, 'unpacked', LARGE)
    await accept(pool, [
      newMessage({ id, stages: [{ stage: 'unpacked', bytes: null, size_bytes: sizeBytes, sha256 }] }),
    ])
    const download = async (): Promise<Buffer> => {
      const answer = await fetch(`${base}/messages/${id}/payload`)
      if (!answer.ok) throw new Error(`${answer.status}`)
      return Buffer.from(await answer.arrayBuffer())
    }
    t.equal(
      createHash('sha256')
        .update(await download())
        .digest('hex'),
      sha256,
    )
    const file = join(directory, id, 'unpacked')
    const changed = Buffer.from(LARGE)
    changed[changed.length - 1] = 0
    for (const damage of [changed, LARGE.subarray(1), LARGE.subarray(0, 10)]) {
      await writeFile(`${file}.damaged`, damage)
      await rename(`${file}.damaged`, file)
      await t.rejects(download(), 'the client sees that it is not whole')
    }
    await rm(file)
    const answer = await client.get(`/messages/${id}/payload`)
    t.match(answer, { status: 500, error: { code: 'PAYLOAD_DAMAGED' } }, 'a lost one never begins')
  })
})
