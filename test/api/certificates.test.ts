import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { startApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'
import { makePkcs12 } from '../support/pkcs12.ts'

t.test('POST /certificates', async (t) => {
  const { client, database } = await startApi(t)
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

  t.test('what is not a single certificate with a description is refused and says so', async (t) => {
    const one = makeCertificate({ commonName: 'bundle 1' })
    const two = makeCertificate({ commonName: 'bundle 2' })
    t.match(await detailsOf({ certificate: one.certificatePem + two.certificatePem, description: 'x' }), {
      certificate: /2 certificates/,
    })
    t.match(await detailsOf({ certificate: one.privateKeyPem, description: 'x' }), {
      certificate: /no certificate/,
    })
    t.match(await detailsOf({ certificate: one.certificatePem }), { description: /is required/ })
    t.match(await detailsOf({ certificate: 'nonsense', description: 'x' }), {
      certificate: /no certificate in a supported format/,
    })
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

  t.test('an EC certificate is taken as well', async (t) => {
    const { certificatePem, privateKeyPem } = makeCertificate({ commonName: 'ec', keyType: 'ec' })
    const answer = await upload({
      certificate: certificatePem,
      private_key: privateKeyPem,
      description: 'ec',
    })
    t.match(answer.data, { key_algorithm: 'EC', key_size: 256, has_private_key: true })
  })
})

t.test('/certificates', async (t) => {
  const { client } = await startApi(t)
  const ids = new Map<string, number>()
  const made = new Map<string, ReturnType<typeof makeCertificate>>()
  for (const [commonName, days, key] of [
    ['expired', -2, false],
    ['soon', 10, true],
    ['later', 60, false],
    ['fresh', 365, true],
  ] as const) {
    const certificate = makeCertificate({ commonName, days })
    const parts = {
      certificate: certificate.certificatePem,
      description: `The ${commonName} one`,
      ...(key ? { private_key: certificate.privateKeyPem } : {}),
    }
    const { data } = await client.ask('POST', '/certificates', { parts })
    ids.set(commonName, Number(data['id']))
    made.set(commonName, certificate)
  }
  const names = async (path: string) => {
    const { data, status } = await client.get(path)
    t.equal(status, 200)
    return (data['certificates'] as { common_name: string }[]).map(({ common_name }) => common_name)
  }

  t.test('status and key filter, and combine', async (t) => {
    t.same(await names('/certificates'), ['expired', 'soon', 'later', 'fresh'])
    t.same(await names('/certificates?status=expired'), ['expired'])
    t.same(await names('/certificates?status=expiring'), ['soon'])
    t.same(await names('/certificates?status=valid'), ['later', 'fresh'])
    t.same(await names('/certificates?status=valid&key=present'), ['fresh'])
    t.same(await names('/certificates?key=absent'), ['expired', 'later'])
    for (const query of ['status=old', 'status=', 'key=maybe']) {
      const answer = await client.get(`/certificates?${query}`)
      t.same(Object.keys(answer.error?.details ?? {}), [query.split('=')[0]])
    }
  })

  t.test('q finds text, and the start of the fingerprint from four hex digits on', async (t) => {
    t.same(await names('/certificates?q=THE+SOON'), ['soon'])
    t.same(await names('/certificates?q=cn%3Dlater'), ['later'])
    const x509 = new X509Certificate(made.get('fresh')?.certificate ?? '')
    t.same(await names(`/certificates?q=${x509.fingerprint256.slice(0, 17)}`), ['fresh'])
    t.same(await names(`/certificates?q=${x509.serialNumber.toLowerCase()}`), ['fresh'])
    t.same(await names('/certificates?q=%25'), [])
  })

  t.test('/expiring lists expired and expiring ones, soonest first', async (t) => {
    t.same(await names('/certificates/expiring'), ['expired', 'soon'])
    t.same(await names('/certificates/expiring?days=61'), ['expired', 'soon', 'later'])
    t.same(await names('/certificates/expiring?days=999999999999'), ['expired', 'soon', 'later', 'fresh'])
    for (const days of ['0', '-1', 'x', '']) {
      t.same(Object.keys((await client.get(`/certificates/expiring?days=${days}`)).error?.details ?? {}), [
        'days',
      ])
    }
  })

  t.test('states and days that remain', async (t) => {
    t.match((await client.get(`/certificates/${ids.get('expired')}`)).data, {
      state: 'expired',
      days_remaining: 0,
    })
    t.match((await client.get(`/certificates/${ids.get('soon')}`)).data, {
      state: 'expiring',
      days_remaining: 9,
    })
  })

  t.test('only the description can be changed', async (t) => {
    const path = `/certificates/${ids.get('fresh')}`
    const { data } = await client.get(path)
    const changed = await client.put(path, { ...data, description: 'new', common_name: 'ignored' })
    t.match(changed.data, { description: 'new', common_name: 'fresh' })
    t.equal((await client.put(path, { der: 'x' })).status, 400)
  })

  t.test('the download is the certificate as PEM, never the key', async (t) => {
    const answer = await client.get(`/certificates/${ids.get('soon')}/download`)
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('content-disposition'), 'attachment; filename="soon.pem"')
    t.equal(answer.text, made.get('soon')?.certificatePem)
  })

  t.test('one that a plugin instance uses cannot be deleted', async (t) => {
    await client.create('/plugins/configs?type=as2-receiver', {
      name: 'tls',
      tls_certificate_id: ids.get('soon'),
    })
    t.match((await client.delete(`/certificates/${ids.get('soon')}`)).error, {
      code: 'CERTIFICATE_IN_USE',
      details: { users: [{ kind: 'plugin-configuration', name: 'tls', fields: ['tls_certificate_id'] }] },
    })
  })

  t.test('a deleted certificate is gone', async (t) => {
    t.equal((await client.delete(`/certificates/${ids.get('later')}`)).status, 204)
    t.equal((await client.get(`/certificates/${ids.get('later')}`)).status, 404)
  })
})
