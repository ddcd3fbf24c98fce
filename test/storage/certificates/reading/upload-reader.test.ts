import t from 'tap'
import { WaybillError } from '../../../../runtime/errors.ts'
import { createLog } from '../../../../runtime/log.ts'
import type { FoundMaterial } from '../../../../storage/certificates/reading/material.ts'
import { UploadReader, type ReaderLimits } from '../../../../storage/certificates/reading/upload-reader.ts'
import { makeCertificate } from '../../../support/certificates.ts'
import type { Teardown } from '../../../support/database.ts'
import { hostileUploads } from '../../../support/hostile-uploads.ts'

// A thread comes to its processor time late on a busy machine.
t.setTimeout(300_000)

const log = createLog(process.env['LOG_LEVEL'] ?? 'silent')
const CHILD = new URL('../../../support/reading-child.ts', import.meta.url)
const bytes = Buffer.from('whatever')

/** A reader whose threads do what the password says. */
function obedientReader(t: Teardown, limits: Partial<ReaderLimits> = {}) {
  const reader = new UploadReader({ log, thread: CHILD, limits: { threads: 1, ...limits } })
  t.teardown(() => reader.close())
  const read = (password: string, privateKey?: Buffer) =>
    reader.read({ certificate: bytes, privateKey, password })
  return { reader, read }
}

t.test('what a file holds is told, with the bytes, the dates and the key', async (t) => {
  const reader = new UploadReader({ log })
  t.teardown(() => reader.close())
  const made = makeCertificate({ commonName: 'read', keyType: 'ec' })
  const found = await reader.read({
    certificate: Buffer.from(made.certificatePem),
    privateKey: Buffer.from(made.privateKeyPem),
    password: '',
  })
  t.match(found, {
    certificates: [{ keyIndex: 0, facts: { common_name: 'read' } }],
    keys: [{ algorithm: 'EC' }],
  })
  t.ok(made.certificate.equals(found.certificates[0]?.der ?? Buffer.alloc(0)))
  t.ok(found.certificates[0]?.facts.not_after instanceof Date)
  t.equal(bytes.toString(), 'whatever', 'the bytes that were handed over are copies')
})

t.test('a refusal of the thread is a validation failure', async (t) => {
  const reader = new UploadReader({ log, limits: { cpuMs: 60_000, readMs: 60_000 } })
  t.teardown(() => reader.close())
  for (const { name, certificate, privateKey, password = '', refusal } of hostileUploads()) {
    const reading = reader.read({ certificate, privateKey, password })
    await t.rejects(reading, { code: 'INVALID_INPUT', details: refusal }, name)
  }
})

t.test('a reading that goes on for ever is ended with its thread, and the next one is read', async (t) => {
  const { read } = obedientReader(t, { cpuMs: 200, readMs: 600_000 })
  await t.rejects(read('go on for ever'), {
    code: 'INVALID_INPUT',
    details: { certificate: 'the file takes longer than 0.2 seconds to read' },
  })
  await t.rejects(read('go on for ever', bytes), {
    code: 'INVALID_INPUT',
    details: { private_key: 'the file takes longer than 0.2 seconds to read' },
  })
  t.match(await read('answer'), { notes: ['answer'] })
})

t.test('a reading may take longer by the clock than its processor time, on a busy machine', async (t) => {
  const { read } = obedientReader(t, { cpuMs: 1_000, readMs: 600_000 })
  t.match(await read('wait'), { notes: ['wait'] })
})

t.test(
  'a reading that the machine does not come to is ended with its thread and blames no file',
  async (t) => {
    const { read } = obedientReader(t, { cpuMs: 1_000, readMs: 2_000 })
    await t.rejects(read('wait for ever'), { code: 'TOO_BUSY', message: /too busy to read the upload/ })
    // The machine may in truth be too busy for the next one, which is repeated as its sender is told to.
    const repeated = async (): Promise<FoundMaterial> =>
      read('answer').catch((thrown: unknown) => {
        if (thrown instanceof WaybillError && thrown.code === 'TOO_BUSY') return repeated()
        throw thrown
      })
    t.match(await repeated(), { notes: ['answer'] })
  },
)

t.test(
  'a reading that takes too much memory is ended with its thread, and the next one is read',
  async (t) => {
    const { read } = obedientReader(t, { heapMb: 32, cpuMs: 60_000, readMs: 60_000 })
    await t.rejects(read('take memory'), {
      code: 'INVALID_INPUT',
      details: { certificate: 'the file takes too much memory to read' },
    })
    t.match(await read('answer'), { notes: ['answer'] })
  },
)

t.test('a thread that fails or ends is no fault of the file, and the next one is read', async (t) => {
  const { read } = obedientReader(t)
  await t.rejects(read('fail'), { message: 'A defect' })
  await t.rejects(read('end'), { message: /exited/ })
  t.match(await read('answer'), { notes: ['answer'] })
})

t.test('a thread that cannot begin is told as a server that is too busy', async (t) => {
  const missing = new URL('no-such-child.ts', CHILD)
  const reader = new UploadReader({ log, thread: missing, limits: { threads: 1, beginMs: 200 } })
  t.teardown(() => reader.close())
  const reading = reader.read({ certificate: bytes, privateKey: undefined, password: '' })
  await t.rejects(reading, { code: 'TOO_BUSY' })
})

t.test('uploads wait for a thread in their order, and one too many is refused', async (t) => {
  const { read } = obedientReader(t, { waiting: 2, cpuMs: 200, readMs: 600_000 })
  const order: string[] = []
  const told = (password: string) =>
    read(password).then(
      () => order.push(password),
      () => order.push(`not ${password}`),
    )
  const waiting = [told('go on for ever'), told('first'), told('second')]
  await t.rejects(read('third'), { code: 'TOO_BUSY', message: /Too many uploads/ })
  await Promise.all(waiting)
  t.same(order, ['not go on for ever', 'first', 'second'])
  t.match(await read('fourth'), { notes: ['fourth'] }, 'there is room again')
})

t.test('never more are read at the same time than there are threads', async (t) => {
  const { read } = obedientReader(t, { threads: 2, waiting: 20 })
  const all = await Promise.all(Array.from({ length: 20 }, (_, at) => read(String(at))))
  t.same(
    all.map(({ notes }) => notes[0]),
    Array.from({ length: 20 }, (_, at) => String(at)),
  )
})

t.test('a reader that is closed refuses what it reads, what waits, and what still comes', async (t) => {
  const { reader, read } = obedientReader(t, { cpuMs: 600_000, readMs: 600_000 })
  const open = ['go on for ever', 'waits'].map((password) => t.rejects(read(password), { code: 'TOO_BUSY' }))
  await reader.close()
  await Promise.all(open)
  await t.rejects(read('comes'), { code: 'TOO_BUSY' })
})
