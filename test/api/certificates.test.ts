import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { startApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'
import { makePkcs12 } from '../support/pkcs12.ts'
import { writePkcs7 } from '../support/pkcs7.ts'

t.test('POST /certificates', async (t) => {
  const { client, base, database } = await startApi(t)
  const upload = (parts: Record<string, string | Uint8Array<ArrayBuffer>>) =>
    client.ask('POST', '/certificates', { parts })
  const detailsOf = async (parts: Record<string, string | Uint8Array<ArrayBuffer>>) => {
    const answer = await upload(parts)
    t.equal(answer.status, 400, answer.text)
    return answer.error?.details ?? {}
  }

  t.test('stores a single certificate with a description', async (t) => {
    const { certificatePem, certificate } = makeCertificate({
      commonName: 'Globex EDI',
      hosts: ['as2.globex.example'],
    })
    const answer = await upload({ certificate: certificatePem, description: ' Globex ' })
    t.equal(answer.status, 201)
    const x509 = new X509Certificate(certificate)
    t.match(answer.data, {
      description: 'Globex',
      common_name: 'Globex EDI',
      subject: 'CN=Globex EDI',
      issuer: 'CN=Globex EDI',
      serial_number: x509.serialNumber.toLowerCase(),
      state: 'valid',
      days_remaining: 364,
      has_private_key: false,
      private_key_matches: false,
      fingerprint_sha256: x509.fingerprint256.replaceAll(':', '').toLowerCase(),
      fingerprint_sha1: x509.fingerprint.replaceAll(':', '').toLowerCase(),
      key_algorithm: 'RSA',
      key_size: 2048,
      is_ca: false,
      signature_algorithm: /sha256WithRSAEncryption/i,
    })
    t.match(answer.data['extensions'], [
      { name: 'subjectKeyIdentifier', critical: false, value: /^[0-9a-f]{40}$/ },
      { oid: '2.5.29.15', name: 'keyUsage', critical: true, value: 'digitalSignature, keyEncipherment' },
      { name: 'subjectAltName', value: 'DNS:as2.globex.example' },
    ])
  })

  t.test('takes PEM, DER and PKCS#12, and keeps the key sealed', async (t) => {
    const made = ['pem', 'der', 'p12'].map((commonName) => makeCertificate({ commonName }))
    const [pem, der, p12] = made
    if (pem === undefined || der === undefined || p12 === undefined)
      throw new Error('three certificates were made')
    const answers = [
      await upload({ certificate: pem.certificatePem + pem.privateKeyPem, description: 'pem' }),
      await upload({
        certificate: new Uint8Array(der.certificate),
        private_key: new Uint8Array(der.privateKey.export({ format: 'der', type: 'pkcs1' })),
        description: 'der',
      }),
      await upload({ certificate: makePkcs12(p12, 'secret'), password: 'secret', description: 'p12' }),
    ]
    for (const answer of answers) {
      t.equal(answer.status, 201, answer.text)
      t.match(answer.data, { has_private_key: true, private_key_matches: true })
      t.notMatch(answer.text, /"private_key"|PRIVATE KEY/)
    }
    const { rows } = await database.pool.query<{ private_key: string }>(
      'select private_key from certificate where private_key is not null',
    )
    t.equal(rows.length, 3)
    for (const { private_key } of rows) t.match(private_key, /^v1:/)
  })

  t.test(
    'a certificate that is stored is 409 CERTIFICATE_EXISTS in any format, with or without a description',
    async (t) => {
      const made = makeCertificate({ commonName: 'twice' })
      const first = await upload({ certificate: made.certificatePem, description: 'twice' })
      for (const parts of [
        { certificate: new Uint8Array(made.certificate), description: 'again' },
        { certificate: makePkcs12(made, 'x'), password: 'x', description: 'again' },
        { certificate: made.certificatePem },
      ]) {
        const answer = await upload(parts)
        t.equal(answer.status, 409)
        t.match(answer.error, { code: 'CERTIFICATE_EXISTS', details: { existing_id: first.data['id'] } })
      }
    },
  )

  t.test('of equal uploads at once one is stored, and the others name it', async (t) => {
    const { certificatePem } = makeCertificate({ commonName: 'racing' })
    const parts = { certificate: certificatePem, description: 'racing' }
    const answers = await Promise.all(Array.from({ length: 4 }, () => upload(parts)))
    const stored = answers.find(({ status }) => status === 201)
    const refused = answers.filter(({ status }) => status === 409)
    t.equal(refused.length, 3)
    for (const { error } of refused) t.equal(error?.details?.['existing_id'], stored?.data['id'])
  })

  t.test('a key that does not match its certificate is refused on private_key', async (t) => {
    const one = makeCertificate({ commonName: 'one' })
    const other = makeCertificate({ commonName: 'other' })
    const description = 'mixed'
    t.same(
      Object.keys(
        await detailsOf({ certificate: one.certificatePem, private_key: other.privateKeyPem, description }),
      ),
      ['private_key'],
    )
    t.same(
      Object.keys(await detailsOf({ certificate: one.certificatePem + other.privateKeyPem, description })),
      ['private_key'],
    )
    t.same(
      Object.keys(await detailsOf({ certificate: one.certificatePem, private_key: 'nonsense', description })),
      ['private_key'],
    )
  })

  t.test('a wrong or missing password is refused on password', async (t) => {
    const made = makeCertificate({ commonName: 'locked' })
    const certificate = makePkcs12(made, 'secret')
    t.match(await detailsOf({ certificate, description: 'x' }), { password: /is required/ })
    t.match(await detailsOf({ certificate, password: 'wrong', description: 'x' }), {
      password: /does not open/,
    })
    const private_key = made.privateKey
      .export({ format: 'pem', type: 'pkcs8', cipher: 'aes-256-cbc', passphrase: 'secret' })
      .toString()
    t.same(
      Object.keys(await detailsOf({ certificate: made.certificatePem, private_key, description: 'x' })),
      ['password'],
    )
    const opened = await upload({
      certificate: made.certificatePem,
      private_key,
      password: 'secret',
      description: 'x',
    })
    t.equal(opened.status, 201)
  })

  t.test('what is no certificate, and a form with other parts, is refused and says so', async (t) => {
    const one = makeCertificate({ commonName: 'refused', keyType: 'ec' })
    t.match(await detailsOf({ certificate: 'nonsense', description: 'x' }), {
      certificate: /no certificate in a supported format/,
    })
    t.match(await detailsOf({ certificate: '', description: 'x' }), { certificate: 'is required' })
    t.match(await detailsOf({ description: 'x' }), { certificate: 'is required' })
    t.match(await detailsOf({ certificate: one.certificatePem, descripton: 'x' }), {
      descripton: 'unknown part',
    })
    t.match(await detailsOf({ certificate: one.certificatePem, description: 'x'.repeat(501) }), {
      description: /500/,
    })
  })

  t.test('a body above 20 MiB is 413', async (t) => {
    const answer = await upload({ certificate: new Uint8Array(21 * 1024 * 1024), description: 'x' })
    t.equal(answer.status, 413)
    t.equal(answer.error?.code, 'PAYLOAD_TOO_LARGE')
  })

  t.test('so is one that does not say its length', async (t) => {
    const boundary = 'boundary'
    const head = `--${boundary}\r\ncontent-disposition: form-data; name="certificate"; filename="x"\r\n\r\n`
    const chunk = new Uint8Array(1024 * 1024)
    const body = async function* () {
      yield new TextEncoder().encode(head)
      for (let sent = 0; sent < 21; sent += 1) yield chunk
      yield new TextEncoder().encode(`\r\n--${boundary}--\r\n`)
    }
    const answer = await fetch(`${base}/certificates`, {
      method: 'POST',
      headers: { 'x-requested-with': 'test', 'content-type': `multipart/form-data; boundary=${boundary}` },
      body: body(),
      duplex: 'half',
    })
    t.equal(answer.status, 413)
    t.match(await answer.json(), { error: { code: 'PAYLOAD_TOO_LARGE' } })
  })

  t.test('certificates of every kind of key are taken, with their keys', async (t) => {
    for (const [keyType, key_algorithm, key_size] of [
      ['ec', 'EC', 256],
      ['ed25519', 'Ed25519', 256],
      ['rsa-pss', 'RSA', 2048],
    ] as const) {
      const { certificatePem, privateKeyPem } = makeCertificate({ commonName: keyType, keyType })
      const parts = { certificate: certificatePem, private_key: privateKeyPem, description: keyType }
      const { data } = await upload(parts)
      t.match(data, { key_algorithm, key_size, has_private_key: true, private_key_matches: true }, keyType)
    }
  })

  t.test('a certificate of PKCS#7 is taken, and one with other things beside it', async (t) => {
    const [one, two] = ['pkcs7', 'beside'].map((commonName) => makeCertificate({ commonName, keyType: 'ec' }))
    if (one === undefined || two === undefined) throw new Error('two certificates were made')
    const file = new Uint8Array(writePkcs7([one]))
    t.match((await upload({ certificate: file, description: 'x' })).data, { common_name: 'pkcs7' })
    const publicKey = two.publicKey.export({ format: 'pem', type: 'spki' }).toString()
    t.match((await upload({ certificate: publicKey + two.certificatePem, description: 'x' })).status, 201)
  })
})
