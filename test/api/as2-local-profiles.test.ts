import t from 'tap'
import { startApi } from '../support/api.ts'
import { storeCertificate } from '../support/as2-partner.ts'
import { makeCertificate } from '../support/certificates.ts'

const PATH = '/as2/local-profiles'

t.test('/as2/local-profiles', async (t) => {
  const api = await startApi(t)
  const { client } = api
  const stored = (commonName: string, withKey: boolean, wishes: object = {}) =>
    storeCertificate(api, commonName, makeCertificate({ commonName, ...wishes }), withKey)
  const organization = async (name: string) => Number((await client.create('/organizations', { name }))['id'])
  const refusal = async (body: object) => {
    const { status, error, text } = await client.post(PATH, body)
    if (status !== 400) throw new Error(text)
    return error?.details ?? {}
  }
  const own = await stored('own', true)
  const foreign = await stored('foreign', false)
  const acme = await organization('acme')

  t.test('an unknown organization is refused on local_organization_id, and it is required', async (t) => {
    t.match(await refusal({ local_organization_id: 999, as2id: 'X' }), {
      local_organization_id: 'there is no organization 999',
    })
    t.match(await refusal({}), { local_organization_id: 'is required', as2id: 'is required' })
  })

  t.test('referenced certificates must exist and hold a private key, all of it told at once', async (t) => {
    const body = {
      local_organization_id: acme,
      as2id: ' ACME',
      signing_certificate_id: 999,
      decryption_certificate_id: foreign,
      previous_decryption_certificate_id: 'x',
    }
    t.match(await refusal(body), {
      as2id: /space/,
      signing_certificate_id: 'there is no certificate 999',
      decryption_certificate_id: `the certificate ${foreign} (foreign) has no private key`,
      previous_decryption_certificate_id: /number/,
    })
  })

  t.test('their keys must be RSA or on a common curve, of which alone the engine makes use', async (t) => {
    const profile = { local_organization_id: acme, as2id: 'ACME' }
    const ec = await stored('curve', true, { keyType: 'ec', curve: 'prime192v1' })
    const edwards = await stored('edwards', true, { keyType: 'ed25519' })
    const authority = makeCertificate({ commonName: 'ca', keyType: 'ec', authority: true })
    const pss = await stored('pss', true, { keyType: 'rsa-pss', issuer: authority })
    t.match(
      await refusal({
        ...profile,
        signing_certificate_id: ec,
        decryption_certificate_id: edwards,
        previous_decryption_certificate_id: pss,
      }),
      {
        signing_certificate_id:
          /must have an EC key on one of the curves prime256v1.*\(curve\) is on prime192v1$/,
        decryption_certificate_id: /must have an RSA or EC key.*\(edwards\).* Ed25519$/,
        previous_decryption_certificate_id: /must have an RSA or EC key.*\(pss\).*PSS alone$/,
      },
    )
    const short = await stored('short', true, { keyBits: 768, issuer: authority })
    t.match(await refusal({ ...profile, signing_certificate_id: short }), {
      signing_certificate_id: /at least 1024 bits.*\(short\) has 768/,
    })
  })

  t.test(
    'a profile may lack certificates, gets them by updates, and keeps what an update leaves out',
    async (t) => {
      const answer = await client.post(PATH, { local_organization_id: acme, as2id: 'ACME' })
      t.equal(answer.status, 201)
      t.match(answer.data, {
        local_organization_id: acme,
        as2id: 'ACME',
        signing_certificate_id: null,
        decryption_certificate_id: null,
        previous_decryption_certificate_id: null,
        created_at: String,
        updated_at: String,
      })
      const path = `${PATH}/${acme}`
      t.match((await client.put(path, { signing_certificate_id: own })).data, { signing_certificate_id: own })
      t.match((await client.put(path, { decryption_certificate_id: own })).data, {
        as2id: 'ACME',
        signing_certificate_id: own,
        decryption_certificate_id: own,
      })
      const { data } = await client.get(path)
      t.match(
        (await client.put(path, data)).data,
        { ...data, updated_at: String },
        'an answer can be put back',
      )
      t.match((await client.get(PATH)).data, {
        profiles: [{ as2id: 'ACME' }],
        total: 1,
        limit: 20,
        offset: 0,
      })
    },
  )

  t.test('a second profile for the same party is 409 CONFLICT', async (t) => {
    const answer = await client.post(PATH, { local_organization_id: acme, as2id: 'OTHER' })
    t.equal(answer.status, 409)
    t.equal(answer.error?.code, 'CONFLICT')
    const racer = await organization('racer')
    const racing = await Promise.all(
      Array.from({ length: 5 }, (_, at) =>
        client.post(PATH, { local_organization_id: racer, as2id: `R${at}` }),
      ),
    )
    t.same(
      racing.map(({ status }) => status).toSorted((a, b) => a - b),
      [201, 409, 409, 409, 409],
    )
  })

  t.test('as2id has 1 to 128 printable ASCII characters, is unique, and its case counts', async (t) => {
    const initech = await organization('initech')
    for (const as2id of [
      'ACME',
      '',
      ' ACME',
      'ACME ',
      'Ä',
      'a\tb',
      'a\r\nb',
      '\x7f',
      'x'.repeat(129),
      null,
      7,
    ]) {
      const details = await refusal({ local_organization_id: initech, as2id })
      t.same(Object.keys(details), ['as2id'], JSON.stringify(as2id))
    }
    const odd = 'acme, # [1] "x" \\ y'
    t.match(await client.create(PATH, { local_organization_id: initech, as2id: odd }), { as2id: odd })
    t.match((await client.put(`${PATH}/${initech}`, { as2id: 'x'.repeat(128) })).data, {
      as2id: 'x'.repeat(128),
    })
    const taken = await client.put(`${PATH}/${initech}`, { as2id: 'ACME' })
    t.match(taken.error?.details, { as2id: /another organization/ })
    t.match((await client.put(`${PATH}/${initech}`, { as2id: 'Acme' })).data, { as2id: 'Acme' })

    const parties = await Promise.all(['r1', 'r2', 'r3', 'r4'].map(organization))
    const racing = await Promise.all(
      parties.map((id) => client.post(PATH, { local_organization_id: id, as2id: 'SAME' })),
    )
    const refused = racing.filter(({ status }) => status !== 201)
    t.equal(refused.length, 3, 'one of those that are sent at once is stored')
    t.ok(refused.every(({ status, error }) => status === 400 && error?.details?.['as2id'] !== undefined))
  })

  t.test('a body that names another organization is refused on local_organization_id', async (t) => {
    const answer = await client.put(`${PATH}/${acme}`, { local_organization_id: 1_000 })
    t.match(answer.error?.details, { local_organization_id: /record in the path/ })
    t.equal((await client.put(`${PATH}/${acme}`, { local_organization_id: acme })).status, 200)
    t.equal((await client.get(`${PATH}/999`)).status, 404)
    t.match((await client.get(`${PATH}/x`)).error?.details, { id: /whole number/ })
  })

  t.test('a certificate that a profile uses cannot be deleted', async (t) => {
    const answer = await client.delete(`/certificates/${own}`)
    t.equal(answer.status, 409)
    t.match(answer.error, {
      code: 'CERTIFICATE_IN_USE',
      details: {
        total: 1,
        users: [{ name: 'acme', fields: ['signing_certificate_id', 'decryption_certificate_id'] }],
      },
    })
  })

  t.test('an organization with a profile cannot be deleted; without it, it can', async (t) => {
    const answer = await client.delete(`/organizations/${acme}`)
    t.match(answer.error, {
      code: 'CONFLICT',
      details: {
        total: 1,
        users: [
          {
            kind: 'as2-local-profile',
            name: 'acme',
            fields: ['local_organization_id'],
            link: `${PATH}/${acme}`,
          },
        ],
      },
    })
    t.equal((await client.delete(`${PATH}/${acme}`)).status, 204)
    t.equal((await client.delete(`${PATH}/${acme}`)).status, 404)
    t.equal((await client.delete(`/organizations/${acme}`)).status, 204)
  })
})
