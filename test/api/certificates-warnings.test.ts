import t from 'tap'
import { startApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'

t.test('certificates with RSA keys under 2048 bits are warned of wherever they are shown', async (t) => {
  const { client } = await startApi(t)
  const upload = (wishes: Parameters<typeof makeCertificate>[0]) => {
    const { certificatePem, privateKeyPem } = makeCertificate(wishes)
    return client.ask('POST', '/certificates', {
      parts: { certificate: certificatePem, private_key: privateKeyPem, description: 'x' },
    })
  }
  const weak = await upload({ commonName: 'weak', keyBits: 1024 })
  t.equal(weak.status, 201)
  const warnings = [
    'The RSA key has 1024 bits. Keys of less than 2048 can be broken, and partners may refuse them.',
  ]
  t.same(weak.data['warnings'], warnings)
  const path = `/certificates/${String(weak.data['id'])}`
  t.same((await client.get(path)).data['warnings'], warnings)
  t.same((await client.put(path, { description: 'y' })).data['warnings'], warnings)
  const { certificates } = (await client.get('/certificates')).data as {
    certificates: { warnings: string[] }[]
  }
  t.same(
    certificates.map((each) => each.warnings),
    [warnings],
  )

  t.same((await upload({ commonName: 'sound' })).data['warnings'], [])
  t.same((await upload({ commonName: 'curve', keyType: 'ec' })).data['warnings'], [])

  const [one, two] = [
    makeCertificate({ commonName: 'one', keyBits: 1024 }),
    makeCertificate({ commonName: 'two' }),
  ]
  const choice = await client.ask('POST', '/certificates', {
    parts: { certificate: one.certificatePem + two.certificatePem, description: 'x' },
  })
  const found = (choice.data['found'] as { certificates: { warnings: string[] }[] }).certificates
  t.same(
    found.map((each) => each.warnings.length),
    [1, 0],
    'before it is chosen, too',
  )
})
