import t from 'tap'
import { startApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'

t.test('a certificate whose validity has not begun is `valid`, as its description says', async (t) => {
  const { client } = await startApi(t)
  const made = makeCertificate({ commonName: 'later', keyType: 'ec', age: -30 })
  const parts = { certificate: made.certificatePem, description: 'later' }
  const { data } = await client.ask('POST', '/certificates', { parts })
  t.equal(data['state'], 'valid')
  t.ok(Date.parse(String(data['not_before'])) > Date.now())
  const { text } = await client.get('/openapi.yaml')
  t.match(text, /otherwise\s+`valid`,\s+also\s+while\s+`not_before`\s+lies\s+in\s+the\s+future/)
  t.match(text, /first\s+ones,\s+and\s+` …`\s+as\s+its\s+end/)
})
