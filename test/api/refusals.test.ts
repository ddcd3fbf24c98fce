import t from 'tap'
import { startApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

t.test('what is refused, and in which words', async (t) => {
  const { client } = await startApi(t)
  const acme = Number((await client.create('/organizations', { name: 'acme' }))['id'])
  const globex = Number((await client.create('/partners', { name: 'globex' }))['id'])
  const certificate = async (commonName: string, keyType: 'rsa' | 'rsa-pss' | 'ec' | 'ed25519') => {
    const { certificatePem, privateKeyPem } = makeCertificate({ commonName, keyType })
    const parts = { certificate: certificatePem, private_key: privateKeyPem, description: commonName }
    return Number((await client.ask('POST', '/certificates', { parts })).data['id'])
  }
  const rsa = await certificate('rsa', 'rsa')
  const ec = await certificate('ec', 'ec')
  const edwards = await certificate('edwards', 'ed25519')
  const pss = await certificate('pss', 'rsa-pss')

  t.test('a whole number has no end: a large limit is 500, a large offset finds an empty page', async (t) => {
    const many = '9'.repeat(400)
    for (const limit of ['501', '99999999999999999999999', many]) {
      t.match(await client.get(`/organizations?limit=${limit}`), { status: 200, data: { limit: 500 } })
    }
    for (const list of ['/organizations', '/messages', '/services', '/certificates/expiring']) {
      for (const offset of ['99999999999999999999', many]) {
        const answer = await client.get(`${list}?offset=${offset}`)
        t.equal(answer.status, 200, answer.text)
        t.same(Object.values(answer.data).find(Array.isArray), [], list)
      }
    }
    t.equal((await client.get(`/certificates/expiring?days=${many}`)).data['total'], 4)
  })

  t.test('an empty parameter and one that is given twice are named as such', async (t) => {
    for (const query of [
      '/messages?from=',
      '/messages?status=',
      '/messages?since=',
      '/organizations?limit=',
    ]) {
      const name = query.replace(/.*\?|=/g, '')
      t.same((await client.get(query)).error?.details, { [name]: 'must not be empty' }, query)
    }
    t.equal((await client.get('/organizations?q=')).status, 200)
    const twice = 'must be given once, not 2 times'
    t.same((await client.get('/organizations?limit=1&limit=2&offset=x&q=a&q=b')).error?.details, {
      limit: twice,
      offset: 'must be a whole number of at least 0',
      q: twice,
    })
  })

  t.test('a certificate that signs, decrypts or encrypts must have an RSA or EC key', async (t) => {
    const details = {
      signing_certificate_id: edwards,
      decryption_certificate_id: edwards,
      previous_decryption_certificate_id: edwards,
    }
    const local = { local_organization_id: acme, as2id: 'ACME' }
    const refused = await client.post('/as2/local-profiles', { ...local, ...details })
    t.equal(refused.status, 400)
    t.same(Object.keys(refused.error?.details ?? {}).toSorted(), Object.keys(details).toSorted())
    for (const text of Object.values(refused.error?.details ?? {}))
      t.match(text, /must have an RSA or EC key/)
    t.equal(
      (await client.post('/as2/local-profiles', { ...local, decryption_certificate_id: rsa })).status,
      201,
    )

    const remote = { business_partner_id: globex, as2id: 'GLOBEX', endpoint: 'http://globex.example/as2' }
    const asked = (body: object) => client.post('/as2/remote-profiles', { ...remote, ...body })
    t.match((await asked({ partner_certificate_id: edwards })).error?.details, {
      partner_certificate_id: /must have an RSA or EC key/,
    })
    const plain = {
      partner_certificate_id: pss,
      encryption_algorithm: 'None',
      partner_signing_certificate_id: ec,
    }
    t.equal((await asked(plain)).status, 201, 'it verifies signatures only')
    const path = `/as2/remote-profiles/${globex}`
    t.match((await client.put(path, { encryption_algorithm: 'AES256-CBC' })).error?.details, {
      partner_certificate_id: /must have an RSA or EC key/,
    })
    t.equal((await client.delete(path)).status, 204)
  })

  t.test('a text is not the number that it looks like', async (t) => {
    for (const id of [String(acme), '', null, [acme], true]) {
      const answer = await client.put(`/organizations/${acme}`, { id })
      t.same([answer.status, Object.keys(answer.error?.details ?? {})], [400, ['id']], JSON.stringify(id))
    }
    t.equal((await client.put(`/organizations/${acme}`, { id: acme })).status, 200)
    const profile = `/as2/local-profiles/${acme}`
    t.match((await client.put(profile, { local_organization_id: String(acme) })).error?.details, {
      local_organization_id: /number/,
    })
    t.equal((await client.put(profile, { local_organization_id: acme })).status, 200)
    t.match((await client.put(`/certificates/${rsa}`, { id: String(rsa) })).error?.details, { id: /number/ })
  })

  t.test('an endpoint without a body takes an empty object or nothing', async (t) => {
    const action = '/services/api-server/main/restart'
    for (const [method, path, otherwise] of [
      ['POST', action, 403],
      ['DELETE', '/organizations/999999', 404],
    ] as const) {
      const ask = (raw: string) => client.ask(method, path, { raw, headers: JSON_TYPE })
      t.match(await ask('{"force":true}'), {
        status: 400,
        error: { code: 'INVALID_INPUT', details: { force: 'unknown property' } },
      })
      for (const raw of ['{', '[]', 'null', '1']) {
        t.match(
          await ask(raw),
          { status: 400, error: { message: 'Invalid request body' } },
          `${method} ${raw}`,
        )
      }
      t.equal((await ask('{}')).status, otherwise)
      t.equal((await client.ask(method, path, { headers: JSON_TYPE })).status, otherwise)
    }
  })

  t.test('references are checked together with the rules of the fields', async (t) => {
    const keysOf = async (asking: ReturnType<typeof client.post>) => {
      const answer = await asking
      t.equal(answer.status, 400, answer.text)
      return Object.keys(answer.error?.details ?? {}).toSorted()
    }
    t.same(await keysOf(client.post('/as2/remote-profiles', { business_partner_id: 99 })), [
      'as2id',
      'business_partner_id',
      'endpoint',
      'partner_certificate_id',
    ])
    const wrong = { local_organization_id: 99, signing_certificate_id: 99, colour: 'red' }
    t.same(await keysOf(client.post('/as2/local-profiles', wrong)), [
      'as2id',
      'colour',
      'local_organization_id',
      'signing_certificate_id',
    ])
    const update = { as2id: '', decryption_certificate_id: 99 }
    t.same(await keysOf(client.put(`/as2/local-profiles/${acme}`, update)), [
      'as2id',
      'decryption_certificate_id',
    ])
    t.same(await keysOf(client.post('/routes', { from: 'nosuch', source_plugin: 'nosuch', to: 7 })), [
      'from',
      'source_plugin',
      'target_plugin',
      'to',
    ])
    const receiver = { name: 'A', tls_certificate_id: 99 }
    t.same(await keysOf(client.post('/plugins/configs?type=as2-receiver', receiver)), [
      'name',
      'tls_certificate_id',
    ])
  })

  t.test('a file that is no certificate is told so, with the formats that are', async (t) => {
    const texts = ['Dear partner, here is our certificate.\n', '0123456789 is a number\n', '{"a":1}', '']
    for (const text of texts) {
      const parts = { certificate: Buffer.from(text), description: 'text' }
      const answer = await client.ask('POST', '/certificates', { parts })
      t.equal(answer.status, 400)
      t.match(
        answer.error?.details?.['certificate'],
        /no certificate in a supported format \(PEM, DER, PKCS#7, PKCS#12\)/,
        text,
      )
    }
    const { certificatePem } = makeCertificate({ commonName: 'keyless' })
    const parts = { certificate: certificatePem, private_key: Buffer.from('no key'), description: 'x' }
    t.match((await client.ask('POST', '/certificates', { parts })).error?.details, {
      private_key: /no private key in a supported format/,
    })
  })

  t.test('a poller names an existing organization, which it then holds', async (t) => {
    const poller = { name: 'poll', base_directory: 'in', processed_directory: 'done' }
    const create = (from: string) => client.post('/plugins/configs?type=file-poller', { ...poller, from })
    for (const from of ['nosuch', 'globex']) {
      const answer = await create(from)
      t.equal(answer.status, 400)
      t.same(Object.keys(answer.error?.details ?? {}), ['from'])
    }
    t.equal((await create('acme')).status, 201)
    const update = await client.put('/plugins/configs/file-poller/poll', { from: 'nosuch' })
    t.same(Object.keys(update.error?.details ?? {}), ['from'])

    const held = Number((await client.create('/organizations', { name: 'held' }))['id'])
    await client.put('/plugins/configs/file-poller/poll', { from: 'held' })
    const conflict = {
      status: 409,
      error: {
        code: 'CONFLICT',
        details: {
          users: [
            {
              kind: 'plugin-configuration',
              name: 'poll',
              fields: ['from'],
              link: '/plugins/configs/file-poller/poll',
            },
          ],
          total: 1,
        },
      },
    }
    t.match(await client.delete(`/organizations/${held}`), conflict)
    t.match(await client.put(`/organizations/${held}`, { name: 'other' }), conflict)
    await client.create('/partners', { name: 'held' })
    const partner = (await client.get('/partners?q=held')).data['partners'] as { id: number }[]
    t.equal((await client.delete(`/partners/${partner[0]?.id}`)).status, 204, 'it names no partner')
    await client.delete('/plugins/configs/file-poller/poll')
    t.equal((await client.delete(`/organizations/${held}`)).status, 204)
  })
})
