import t from 'tap'
import { startApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'
import type { Answer } from '../support/client.ts'
import { hostileUploads } from '../support/hostile-uploads.ts'

const THREAD = new URL('../support/reading-child.ts', import.meta.url)

t.test('while twenty uploads want to be read for ever, the server answers all others', async (t) => {
  const limits = { threads: 2, waiting: 16, cpuMs: 600_000, readMs: 600_000, beginMs: 600_000 }
  const { client, uploadReader } = await startApi(t, { reader: { thread: THREAD, limits } })
  const parts = { certificate: 'whatever', password: 'go on for ever' }
  const answered: Answer[] = []
  const twoRefused = Promise.withResolvers<void>()
  const uploads = Array.from({ length: 20 }, async () => {
    const answer = await client.ask('POST', '/certificates', { parts })
    if (answered.push(answer) === 2) twoRefused.resolve()
    return answer
  })

  // Two are read and sixteen wait: for two there is no room.
  await twoRefused.promise
  for (const { status, error, headers } of answered) {
    t.equal(status, 503)
    t.match(error, { code: 'TOO_BUSY', message: /Too many uploads/ })
    t.match(headers.get('retry-after'), /^\d+$/)
  }
  for (let round = 0; round < 10; round += 1) {
    t.match(await client.get('/health'), { status: 200 })
    t.match(await client.get('/certificates'), { status: 200 })
  }
  t.equal(answered.length, 2, 'the others are still open')

  await uploadReader.close()
  t.same(
    (await Promise.all(uploads)).map(({ error }) => error?.code),
    Array.from({ length: 20 }, () => 'TOO_BUSY'),
    'a server that ends does not wait for them',
  )
})

t.test('a hostile upload is refused on its field', async (t) => {
  // The files are refused for what they are, not for the time that they take on a busy machine.
  const { client } = await startApi(t, { reader: { limits: { cpuMs: 60_000, readMs: 60_000 } } })
  for (const { name, certificate, privateKey, password = '', refusal } of hostileUploads()) {
    const key = privateKey === undefined ? {} : { private_key: new Uint8Array(privateKey) }
    const parts = {
      certificate: new Uint8Array(certificate),
      ...key,
      password,
      description: name.slice(0, 50),
    }
    const { status, error, text } = await client.ask('POST', '/certificates', { parts })
    t.equal(status, 400, `${name}: ${text}`)
    t.match(error, { code: 'INVALID_INPUT', message: 'Validation failed' }, name)
    t.same(Object.keys(error?.details ?? {}), Object.keys(refusal), name)
  }
  t.equal((await client.get('/certificates')).data['total'], 0)
  const made = makeCertificate({ commonName: 'after', keyType: 'ec' })
  const parts = { certificate: made.certificatePem, description: 'after' }
  t.equal((await client.ask('POST', '/certificates', { parts })).status, 201, 'the next one is read as ever')
})
