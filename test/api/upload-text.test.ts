import { readdir } from 'node:fs/promises'
import t from 'tap'
import { startApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'
import { exchangeRecords } from '../support/exchange-records.ts'
import { multipart, MULTIPART_HEADERS, type Part } from '../support/multipart.ts'

const NO_UTF8 = {
  'ISO 8859-1': Buffer.from('Zürich', 'latin1'),
  'half a character': Buffer.from('Zürich').subarray(0, 2),
  'a surrogate': Buffer.from([0xed, 0xa0, 0x80]),
}
const TYPES = [undefined, 'text/plain', 'text/plain; charset=utf-8', 'application/json']

t.test('text of POST /certificates that is no UTF-8 is refused on its part', async (t) => {
  const { client } = await startApi(t)
  const made = makeCertificate({ commonName: 'text', keyType: 'ec' })
  const upload = (parts: readonly Part[]) =>
    client.ask('POST', '/certificates', {
      raw: multipart([{ name: 'certificate', content: made.certificatePem }, ...parts]),
      headers: MULTIPART_HEADERS,
    })
  for (const name of ['description', 'password']) {
    for (const [what, content] of Object.entries(NO_UTF8)) {
      for (const type of TYPES) {
        const { status, error } = await upload([{ name, content, ...(type === undefined ? {} : { type }) }])
        t.equal(status, 400, `${name}, ${what}, ${type ?? 'no type'}`)
        t.same(error?.details, { [name]: 'must be well-formed UTF-8 text' })
      }
    }
  }
  t.equal((await client.get('/certificates')).data['total'], 0)
  const stored = await upload([
    { name: 'description', type: 'text/plain; charset=utf-8', content: 'Zürich 東京 😀' },
  ])
  t.match(stored, { status: 201, data: { description: 'Zürich 東京 😀' } })
})

t.test('a certificate in DER needs no file name', async (t) => {
  const { client } = await startApi(t)
  const made = makeCertificate({ commonName: 'DER', keyType: 'ec' })
  const raw = multipart([
    { name: 'certificate', content: made.certificate },
    { name: 'description', content: 'DER' },
  ])
  const { status } = await client.ask('POST', '/certificates', { raw, headers: MULTIPART_HEADERS })
  t.equal(status, 201)
})

t.test('text of POST /messages that is no UTF-8 is refused on its part and leaves nothing', async (t) => {
  const api = await startApi(t)
  await exchangeRecords(t, api)
  const fields = { from: 'acme', to: 'globex', target: 'outer' }
  const file = { name: 'file', fileName: 'Rechnung Zürich 東京.edi', content: 'x' }
  const send = (texts: Readonly<Record<string, string | Uint8Array>>) =>
    api.client.ask('POST', '/messages', {
      raw: multipart([file, ...Object.entries(texts).map(([name, content]) => ({ name, content }))]),
      headers: MULTIPART_HEADERS,
    })
  for (const name of Object.keys(fields)) {
    const { status, error } = await send({ ...fields, [name]: NO_UTF8['ISO 8859-1'] })
    t.equal(status, 400)
    t.same(error?.details, { [name]: 'must be well-formed UTF-8 text' })
  }
  const left = await readdir(api.directory, { recursive: true })
  t.same(
    left.filter((name) => name !== '.incoming'),
    [],
  )
  const sent = await send(fields)
  t.match(sent, { status: 201, data: { file_name: 'Rechnung Zürich 東京.edi' } })
})
