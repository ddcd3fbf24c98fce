import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { Test } from 'tap'
import { PAYLOAD_STAGES, type PayloadStage } from '../../../storage/exchange/states.ts'
import type { PayloadStore } from '../../../storage/payloads/store.ts'

/** What every payload store keeps to, wherever it stores. */

export interface StoreUnderTest {
  readonly store: PayloadStore
  /** Replaces the bytes of a stage, as a failing medium would: nobody is told. */
  readonly damage: (
    messageId: string,
    stage: PayloadStage,
    change: (bytes: Buffer) => Buffer,
  ) => Promise<void>
  /** The paths of all that is stored, drafts too. */
  readonly everything: () => Promise<readonly string[]>
}

/** From a stage of no bytes to one that no store sends or writes at once. */
const SIZES = [0, 1, 65_536, 3_000_001, 8 * 2 ** 20, 20_000_003]

export const sha256Of = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

export async function bytesIn(
  store: PayloadStore,
  id: string,
  stage: PayloadStage,
  sha256?: string,
): Promise<Buffer | undefined> {
  const stream = await store.open(id, stage, { sha256 })
  return stream === undefined ? undefined : buffer(stream)
}

export async function collected(names: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = []
  for await (const name of names) all.push(name)
  return all
}

export function holdsToTheContract(t: Test, open: (t: Test) => Promise<StoreUnderTest>): void {
  t.test('what is put comes back, from a stream or a buffer, of any size', async (t) => {
    const { store } = await open(t)
    for (const size of SIZES) {
      const bytes = randomBytes(size)
      const sha256 = sha256Of(bytes)
      const stream = Readable.from([bytes.subarray(0, size >> 1), bytes.subarray(size >> 1)])
      for (const source of [bytes, stream]) {
        const id = randomUUID()
        t.same(await store.put(id, 'received', source), { sizeBytes: size, sha256 })
        t.ok(bytes.equals((await bytesIn(store, id, 'received', sha256)) ?? Buffer.of(1)), `${size} bytes`)
      }
    }
    t.same(await collected(store.unfinished()), [])
  })

  t.test('a stage that is put again is replaced', async (t) => {
    const { store } = await open(t)
    const id = randomUUID()
    await store.put(id, 'receipt', Buffer.from('the first, which is longer'))
    await store.putMany([{ messageId: id, stage: 'receipt', bytes: Buffer.from('second') }])
    t.equal(String(await bytesIn(store, id, 'receipt')), 'second')
    await store.put(id, 'receipt', Readable.from(['th', 'ird'].map((text) => Buffer.from(text))))
    t.equal(String(await bytesIn(store, id, 'receipt')), 'third')
  })

  t.test('many stages are put at once', async (t) => {
    const { store } = await open(t)
    const items = Array.from({ length: 30 }, () => randomUUID()).flatMap((messageId) =>
      PAYLOAD_STAGES.map((stage) => ({ messageId, stage, bytes: randomBytes(100) })),
    )
    await store.putMany(items)
    for (const { messageId, stage, bytes } of items) {
      if (!bytes.equals((await bytesIn(store, messageId, stage)) ?? Buffer.of())) t.fail('other bytes')
    }
    const ids = new Set(items.map(({ messageId }) => messageId))
    t.same(
      (await collected(store.messageIds())).toSorted(),
      [...ids].toSorted(),
      'each message is listed once',
    )
    await store.putMany([])
  })

  t.test('a stage that is not stored is undefined, also after its message is deleted', async (t) => {
    const { store } = await open(t)
    const id = randomUUID()
    t.equal(await store.open(id, 'unpacked'), undefined)
    await store.delete(id)
    for (const stage of PAYLOAD_STAGES) await store.put(id, stage, Buffer.from(stage))
    await store.delete(id)
    for (const stage of PAYLOAD_STAGES) t.equal(await store.open(id, stage), undefined)
    t.same(await collected(store.messageIds()), [])
  })

  t.test('damaged bytes end with an error, before the last of them is handed over', async (t) => {
    const { store, damage } = await open(t)
    const flipped = (bytes: Buffer): Buffer => {
      const other = Buffer.from(bytes)
      other.writeUInt8(other.readUInt8(other.length >> 1) ^ 1, other.length >> 1)
      return other
    }
    const faults: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
      'a flipped bit': flipped,
      'a truncated end': (bytes) => bytes.subarray(0, -1),
      'nothing left': () => Buffer.of(),
      'one byte more': (bytes) => Buffer.concat([bytes, Buffer.of(0)]),
    }
    for (const [name, change] of Object.entries(faults)) {
      for (const size of [1_000, 2_000_000]) {
        const id = randomUUID()
        const { sha256 } = await store.put(id, 'unpacked', randomBytes(size))
        await damage(id, 'unpacked', change)
        let handedOver = 0
        const reading = async (): Promise<void> => {
          const stream = await store.open(id, 'unpacked', { sha256 })
          for await (const chunk of (stream ?? []) as AsyncIterable<Buffer>) handedOver += chunk.length
        }
        await t.rejects(reading(), {
          name: 'StorageError',
          problem: 'damaged',
          message: `The payload ${id}/unpacked differs from what was stored`,
        })
        t.ok(handedOver < size, `${name}: ${handedOver} of ${size} bytes`)
      }
    }
  })

  t.test('a source that fails leaves nothing behind, and the store is not to blame', async (t) => {
    const { store, everything } = await open(t)
    const before = await everything()
    for (const megabytes of [1, 30]) {
      const id = randomUUID()
      async function* broken() {
        for (let sent = 0; sent < megabytes; sent += 1) yield randomBytes(1_000_000)
        throw Object.assign(new Error('the partner hung up'), { code: 'ECONNRESET' })
      }
      await t.rejects(store.put(id, 'received', Readable.from(broken())), {
        name: 'StorageError',
        problem: 'source',
        message: `The payload ${id}/received cannot be stored: the partner hung up`,
      })
    }
    t.same(await everything(), before)
    t.same(await collected(store.unfinished()), [])
  })

  t.test('a reader that goes away in the middle is no harm', async (t) => {
    const { store } = await open(t)
    const id = randomUUID()
    const bytes = randomBytes(20_000_000)
    const { sha256 } = await store.put(id, 'unpacked', bytes)
    for (let times = 0; times < 20; times += 1) {
      const stream = await store.open(id, 'unpacked', { sha256 })
      if (times % 2 === 0) stream?.destroy()
      else for await (const chunk of stream ?? []) if ((chunk as Buffer).length > 0) break
    }
    t.ok(bytes.equals((await bytesIn(store, id, 'unpacked', sha256)) ?? Buffer.of()))
  })

  t.test('no message id and no stage leads to another place', async (t) => {
    const { store } = await open(t)
    await t.rejects(store.delete('..'), /".." is no message id/)
    await t.rejects(store.put(`${randomUUID()}/../x`, 'unpacked', Buffer.of()), /is no message id/)
    await t.rejects(store.open(randomUUID(), '../unpacked' as PayloadStage), /is no payload stage/)
  })

  t.test('the check leaves nothing', async (t) => {
    const { store, everything } = await open(t)
    const before = await everything()
    const steps: string[] = []
    t.same(await store.check((step) => steps.push(step)), { ok: true })
    t.same(steps, ['write', 'read', 'compare', 'delete'])
    t.same(await everything(), before)
  })
}
