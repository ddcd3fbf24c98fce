import { join } from 'node:path'
import t, { type Test } from 'tap'
import { setUpLoop, startLoop, type As2Loop } from '../support/as2-loop.ts'
import { allMessages, countMessages, untilDelivered } from '../support/exchanged-messages.ts'
import { dropFiles, makeFiles, readFiles, type FileSet } from '../support/file-set.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

const COUNT = 1_000

async function begin(t: Test): Promise<{ directory: string; waybill: Waybill; loop: As2Loop }> {
  const directory = await temporaryDirectory(t)
  const waybill = await Waybill.start({ directory })
  t.teardown(async () => waybill.stop())
  const loop = await setUpLoop(waybill, { directory, concurrency: 20 })
  await startLoop(waybill)
  return { directory, waybill, loop }
}

/** Each file arrived once and byte for byte, and the records say so. */
async function checkAll(t: Test, waybill: Waybill, loop: As2Loop, files: FileSet): Promise<void> {
  const arrived = await readFiles(loop.inbox)
  t.same(sorted(arrived), sorted(files), 'every file, once, byte for byte')
  const messages = await allMessages(waybill)
  const outbound = messages.filter(({ direction }) => direction === 'outbound')
  const inbound = messages.filter(({ direction }) => direction === 'inbound')
  t.equal(outbound.length, files.size)
  t.equal(inbound.length, files.size)
  t.ok(
    messages.every(({ status }) => status === 'Delivered'),
    'every message is Delivered',
  )
  t.ok(
    outbound.every(({ protocols }) => protocols.as2?.receipt?.mic_matches === true),
    'every receipt shows the MIC',
  )
  const ids = (list: typeof messages): string[] =>
    list.map(({ protocols }) => protocols.as2?.message_id ?? '').toSorted()
  t.same(ids(inbound), ids(outbound), 'each Message-ID arrived as it was sent, once')
}

const sorted = (files: FileSet): string[] =>
  [...files].map(([name, digest]) => `${name} ${digest}`).toSorted()

/** Waits until the exchange is in the middle of its work. */
async function untilInTheMiddle(waybill: Waybill): Promise<void> {
  await until(async () => (await countMessages(waybill, 'Delivered')) >= COUNT / 2)
}

void t.test('1,000 files dropped at once arrive, each once and byte for byte', async (t) => {
  const { directory, waybill, loop } = await begin(t)
  const files = await makeFiles(join(directory, 'drop'), COUNT, { large: true })
  await dropFiles(join(directory, 'drop'), loop.outbox)
  await untilDelivered(waybill, 2 * files.size)
  await checkAll(t, waybill, loop, files)
  t.equal((await readFiles(join(loop.processed, 'globex'))).size, files.size, 'every file was moved away')
  t.same((await readFiles(loop.outbox)).size, 0)
})

void t.test('kill -9 in the middle of 1,000 files loses none and doubles none', async (t) => {
  const { directory, waybill, loop } = await begin(t)
  const files = await makeFiles(join(directory, 'drop'), COUNT)
  await dropFiles(join(directory, 'drop'), loop.outbox)
  await untilInTheMiddle(waybill)
  await waybill.kill()
  const again = await Waybill.start({ directory })
  t.teardown(async () => again.stop())
  await untilDelivered(again, 2 * files.size)
  await checkAll(t, again, loop, files)
})

void t.test(
  'a receiver that is stopped in the middle of 1,000 files and started again loses none',
  async (t) => {
    const { directory, waybill, loop } = await begin(t)
    const files = await makeFiles(join(directory, 'drop'), COUNT)
    await dropFiles(join(directory, 'drop'), loop.outbox, COUNT - 100)
    await untilInTheMiddle(waybill)
    await waybill.request('POST', '/services/as2-receiver/receiver/stop')
    // The last ones meet a receiver that is not there, however fast the others were.
    await dropFiles(join(directory, 'drop'), loop.outbox)
    await until(async () => (await countMessages(waybill, 'Retrying')) > 0)
    await waybill.request('POST', '/services/as2-receiver/receiver/start')
    await untilDelivered(waybill, 2 * files.size)
    await checkAll(t, waybill, loop, files)
  },
)
