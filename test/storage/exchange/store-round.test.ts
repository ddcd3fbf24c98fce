import { randomBytes, randomUUID } from 'node:crypto'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { systemClock } from '../../../runtime/clock.ts'
import { createLog } from '../../../runtime/log.ts'
import { IntakeGate } from '../../../storage/exchange/intake-gate.ts'
import { storeRound, type StorageFailure } from '../../../storage/exchange/intake-rounds.ts'
import { LocalStore } from '../../../storage/payloads/local-store.ts'
import type { PayloadStore } from '../../../storage/payloads/store.ts'
import { watchedStore } from '../../../storage/payloads/watched-store.ts'
import { smallDisk } from '../../support/disks.ts'
import { temporaryDirectory } from '../../support/processes.ts'

const KIB = 1024

async function begin(t: Parameters<typeof smallDisk>[0], checkedForMs: number) {
  const disk = await smallDisk(t, 1024 * KIB)
  const local = await LocalStore.open(disk)
  let checks = 0
  const counting: PayloadStore = {
    ...watchedStore(local),
    checkedForMs,
    check: (began) => {
      checks += 1
      return local.check(began)
    },
  }
  const store = watchedStore(counting)
  const gate = new IntakeGate()
  const round = storeRound({ store, directories: [], gate, clock: systemClock, log: createLog('silent') })
  return { disk, store, gate, round, checks: () => checks }
}

t.test('a store whose checks cost something is asked again only when a write has failed', async (t) => {
  const { disk, store, gate, round, checks } = await begin(t, 3_600_000)
  for (let rounds = 0; rounds < 5; rounds += 1) await round()
  t.equal(checks(), 1)
  await writeFile(join(disk, 'filler'), randomBytes(900 * KIB))
  await t.rejects(store.put(randomUUID(), 'received', randomBytes(500 * KIB)), {
    name: 'StorageError',
    problem: 'full',
  })
  await round()
  t.equal(checks(), 2, 'at once')
  t.equal(gate.payloadProblem, null, 'what is small still fits')

  await t.rejects(writeFile(join(disk, 'more'), randomBytes(500 * KIB)), { code: 'ENOSPC' })
  const item = { messageId: randomUUID(), stage: 'headers' as const, bytes: randomBytes(10 * KIB) }
  await t.rejects(store.putMany([item]), { name: 'StorageError', problem: 'full' })
  for (let rounds = 0; rounds < 3; rounds += 1) await round()
  t.equal(checks(), 5, 'while it fails it is asked in each round')
  t.match(gate.payloadProblem, /^Payloads cannot be stored: The file system is full/)

  for (const name of ['filler', 'more']) await rm(join(disk, name))
  for (let rounds = 0; rounds < 3; rounds += 1) await round()
  t.equal(checks(), 6)
  t.equal(gate.payloadProblem, null)
})

t.test('a store whose checks cost nothing is asked in each round', async (t) => {
  const { round, checks } = await begin(t, 0)
  for (let rounds = 0; rounds < 3; rounds += 1) await round()
  t.equal(checks(), 3)
})

t.test(
  'a storage that is not mounted is logged once, however often it is asked, and told in health',
  async (t) => {
    const place = await temporaryDirectory(t)
    const directory = join(place, 'payloads')
    const store = watchedStore(await LocalStore.open(directory))
    const lines: string[] = []
    const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) })
    const gate = new IntakeGate()
    const round = storeRound({ store, directories: [], gate, clock: systemClock, log })
    await rename(directory, join(place, 'away'))
    await mkdir(directory)
    for (let rounds = 0; rounds < 3; rounds += 1) await round()
    t.equal(lines.length, 1)
    t.match(lines[0], 'The directory .incoming of the storage is missing')
    t.match(
      gate.payloadProblem,
      /^Payloads cannot be stored: The directory \.incoming of the storage is missing: .* make \.incoming in it or restart$/,
    )
    await rename(join(place, 'away'), directory)
    await round()
    t.equal(gate.payloadProblem, null)
    t.equal(lines.length, 2, 'and its end is')
  },
)

t.test('a problem whose text names another draft each time is logged once', async (t) => {
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) })
  const local = await LocalStore.open(await temporaryDirectory(t))
  let words = 'The file system is read-only'
  const failing: PayloadStore = {
    ...watchedStore(local),
    checkedForMs: 0,
    check: async () => {
      const problem = `${words} (EROFS: read-only file system, open '/payloads/.incoming/${randomUUID()}')`
      return { ok: false, step: 'write', problem }
    },
  }
  const gate = new IntakeGate()
  const store = watchedStore(failing)
  const round = storeRound({ store, directories: [], gate, clock: systemClock, log })
  for (let rounds = 0; rounds < 3; rounds += 1) await round()
  t.equal(lines.length, 1)
  words = 'The file system is full'
  await round()
  t.equal(lines.length, 2, 'another problem is news')
})

t.test('what the start has found closes the gate before the first look', async (t) => {
  const directory = await temporaryDirectory(t)
  const store = watchedStore(await LocalStore.open(directory))
  const gate = new IntakeGate()
  const noted: (StorageFailure | null)[] = []
  const round = storeRound({
    store,
    directories: [],
    gate,
    clock: systemClock,
    log: createLog('silent'),
    foundAtStart: `The file system is full (ENOSPC: no space left on device, mkdir '${directory}')`,
    note: (failure) => void noted.push(failure),
  })
  const problem = 'Payloads cannot be stored: The file system is full'
  t.equal(gate.payloadProblem, problem)
  t.throws(() => gate.assertOpen(), { code: 'STORAGE_UNAVAILABLE' })
  t.same(noted, [{ problem, place: `the directory ${directory}`, facts: null }])
  await round()
  t.equal(gate.payloadProblem, null)
  t.equal(noted.at(-1), null)
})

t.test('of several disks the one that is nearly full is told, with the room that is left', async (t) => {
  const [payloads, data] = [await temporaryDirectory(t), await smallDisk(t, 10_240 * KIB)]
  const store = watchedStore(await LocalStore.open(payloads))
  const lines: string[] = []
  const gate = new IntakeGate()
  const noted: (StorageFailure | null)[] = []
  const round = storeRound({
    store,
    directories: [
      { path: join(payloads, 'not-there'), place: store.place },
      { path: data, place: `the data directory ${data}` },
    ],
    gate,
    clock: systemClock,
    log: pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }),
    note: (failure) => void noted.push(failure),
  })
  await round()
  t.same(noted, [null])
  await t.rejects(writeFile(join(data, 'fill'), randomBytes(11_000 * KIB)), { code: 'ENOSPC' })
  await round()
  await round()
  const problem = 'Payloads cannot be stored: The disk is nearly full'
  const failure = {
    problem,
    place: `the data directory ${data}`,
    facts: '0 of 10 MiB are free on its disk',
  }
  t.same(noted, [null, failure, failure])
  t.equal(gate.payloadProblem, problem, 'which is told to everybody, and names no place')
  t.equal(lines.length, 1)
  t.match(lines[0], `"place":"the data directory ${data}"`)
})
