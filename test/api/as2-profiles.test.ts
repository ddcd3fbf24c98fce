import t from 'tap'
import { startApi, type TestApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'

const LOCAL = '/as2/local-profiles'
const REMOTE = '/as2/remote-profiles'

async function upload({ client }: TestApi, commonName: string, withKey: boolean): Promise<number> {
  const { certificatePem, privateKeyPem } = makeCertificate({ commonName })
  const parts = {
    certificate: certificatePem,
    description: commonName,
    ...(withKey ? { private_key: privateKeyPem } : {}),
  }
  const answer = await client.ask('POST', '/certificates', { parts })
  t.equal(answer.status, 201, answer.text)
  return Number(answer.data['id'])
}

async function party({ client }: TestApi, path: string, name: string): Promise<number> {
  return Number((await client.create(path, { name }))['id'])
}

t.test('local profiles', async (t) => {
  const api = await startApi(t)
  const { client } = api
  const own = await upload(api, 'own', true)
  const foreign = await upload(api, 'foreign', false)
  const acme = await party(api, '/organizations', 'acme')
  const keysOf = async (body: object) => {
    const answer = await client.post(LOCAL, body)
    t.equal(answer.status, 400)
    return Object.keys(answer.error?.details ?? {}).toSorted()
  }

  t.test('referenced certificates must exist and hold a private key', async (t) => {
    const profile = { local_organization_id: acme, as2id: 'ACME' }
    t.same(await keysOf({ ...profile, signing_certificate_id: 999, decryption_certificate_id: foreign }), [
      'decryption_certificate_id',
      'signing_certificate_id',
    ])
  })

  t.test('an unknown organization is refused on local_organization_id', async (t) => {
    t.same(await keysOf({ local_organization_id: 999, as2id: 'X' }), ['local_organization_id'])
    t.same(await keysOf({ as2id: 'X' }), ['local_organization_id'])
  })

  t.test('a profile may lack certificates', async (t) => {
    const answer = await client.post(LOCAL, { local_organization_id: acme, as2id: 'ACME' })
    t.equal(answer.status, 201)
    t.match(answer.data, { local_organization_id: acme, as2id: 'ACME', signing_certificate_id: null })
    t.match((await client.put(`${LOCAL}/${acme}`, { signing_certificate_id: own })).data, {
      signing_certificate_id: own,
    })
    t.match((await client.put(`${LOCAL}/${acme}`, { decryption_certificate_id: own })).data, {
      signing_certificate_id: own,
    })
  })

  t.test('a second profile for the same party is 409 CONFLICT', async (t) => {
    const answer = await client.post(LOCAL, { local_organization_id: acme, as2id: 'OTHER' })
    t.equal(answer.error?.code, 'CONFLICT')
  })

  t.test('as2id is unique, has 1 to 128 printable characters, and its case counts', async (t) => {
    const initech = await party(api, '/organizations', 'initech')
    for (const as2id of ['ACME', '', ' ACME', 'Ä', 'a\tb', 'x'.repeat(129)]) {
      t.same(await keysOf({ local_organization_id: initech, as2id }), ['as2id'], as2id)
    }
    t.equal(
      (await client.post(LOCAL, { local_organization_id: initech, as2id: 'acme, # [1] "x"' })).status,
      201,
    )
    t.equal((await client.put(`${LOCAL}/${initech}`, { as2id: 'ACME' })).status, 400)
  })

  t.test('a body that names another organization is refused', async (t) => {
    const answer = await client.put(`${LOCAL}/${acme}`, { local_organization_id: 1_000 })
    t.same(Object.keys(answer.error?.details ?? {}), ['local_organization_id'])
    t.equal((await client.get(`${LOCAL}/999`)).status, 404)
  })

  t.test('an organization with a profile cannot be deleted; without it, it can', async (t) => {
    const answer = await client.delete(`/organizations/${acme}`)
    t.match(answer.error, {
      code: 'CONFLICT',
      details: { total: 1, users: [{ kind: 'as2-local-profile', name: 'acme', link: `${LOCAL}/${acme}` }] },
    })
    t.equal((await client.delete(`${LOCAL}/${acme}`)).status, 204)
    t.equal((await client.delete(`/organizations/${acme}`)).status, 204)
  })
})

t.test('remote profiles', async (t) => {
  const api = await startApi(t)
  const { client, database } = api
  const certificate = await upload(api, 'globex', false)
  const globex = await party(api, '/partners', 'globex')
  const profile = {
    business_partner_id: globex,
    as2id: 'GLOBEX',
    endpoint: 'https://as2.globex.example/in',
    partner_certificate_id: certificate,
  }
  const keysOf = async (body: object) => {
    const answer = await client.post(REMOTE, { ...profile, ...body })
    t.equal(answer.status, 400)
    return Object.keys(answer.error?.details ?? {}).toSorted()
  }

  t.test('encryption needs partner_certificate_id', async (t) => {
    t.same(await keysOf({ partner_certificate_id: null }), ['partner_certificate_id'])
  })

  t.test('values outside their lists and ranges are refused by name', async (t) => {
    t.same(await keysOf({ signing_algorithm: 'MD5', receipt_timeout_hours: 721, compression: 'Twice' }), [
      'compression',
      'receipt_timeout_hours',
      'signing_algorithm',
    ])
    t.same(await keysOf({ receipt_timeout_hours: 0 }), ['receipt_timeout_hours'])
    t.same(await keysOf({ endpoint: 'https://u:p@globex.example/' }), ['endpoint'])
    t.same(await keysOf({ http_headers: [{ name: 'X', value: 'a\r\nB: c' }] }), ['http_headers'])
    t.same(await keysOf({ http_headers: [{ name: 'Content-Length', value: '5' }] }), ['http_headers'])
    t.same(await keysOf({ tls_client_certificate_id: certificate }), ['tls_client_certificate_id'])
    t.same(await keysOf({ business_partner_id: 999 }), ['business_partner_id'])
  })

  t.test('a profile starts from secure defaults', async (t) => {
    const answer = await client.post(REMOTE, profile)
    t.equal(answer.status, 201)
    t.match(answer.data, {
      ...profile,
      compression: 'BeforeSigning',
      signing_algorithm: 'SHA256',
      signature_scheme: 'PKCS1',
      encryption_algorithm: 'AES256-CBC',
      key_transport: 'PKCS1',
      receipt_mode: 'Sync',
      receipt_signed: true,
      receipt_timeout_hours: 24,
      require_signed: true,
      require_encrypted: true,
      content_type: 'application/octet-stream',
      partner_signing_certificate_id: null,
    })
    t.equal((await client.post(REMOTE, profile)).error?.code, 'CONFLICT')
  })

  t.test(
    'secrets are never returned, sealed at rest, kept, and asked again when the endpoint changes',
    async (t) => {
      const path = `${REMOTE}/${globex}`
      const secret = { http_basic_password: 'hunter2', http_headers: [{ name: 'X-Key', value: 'hunter2' }] }
      for (const answer of [
        await client.put(path, secret),
        await client.get(path),
        await client.get(REMOTE),
      ]) {
        t.equal(answer.status, 200)
        t.notMatch(answer.text, /hunter2|http_basic_password|http_headers/)
      }
      const { rows } = await database.pool.query<{ row: string }>(
        'select r::text as row from as2_remote_profile r',
      )
      t.notMatch(rows[0]?.row, /hunter2/)
      t.equal((await client.put(path, { subject: 'Orders' })).status, 200)
      const moved = await client.put(path, { endpoint: 'https://evil.example/' })
      t.same(Object.keys(moved.error?.details ?? {}).toSorted(), ['http_basic_password', 'http_headers'])
      const again = await client.put(path, { endpoint: 'https://new.example/', ...secret })
      t.match(again.data, { endpoint: 'https://new.example/', subject: 'Orders' })
    },
  )

  t.test('the result of an update is validated as a whole', async (t) => {
    const path = `${REMOTE}/${globex}`
    const without = await client.put(path, { partner_certificate_id: null })
    t.same(Object.keys(without.error?.details ?? {}), ['partner_certificate_id'])
    const plain = await client.put(path, { partner_certificate_id: null, encryption_algorithm: 'None' })
    t.equal(plain.status, 200)
    t.equal((await client.put(path, { encryption_algorithm: '3DES' })).status, 400)
    await client.put(path, { partner_certificate_id: certificate, encryption_algorithm: 'AES128-GCM' })
  })

  t.test('a certificate that profiles use cannot be deleted', async (t) => {
    await client.put(`${REMOTE}/${globex}`, { partner_signing_certificate_id: certificate })
    const answer = await client.delete(`/certificates/${certificate}`)
    t.equal(answer.status, 409)
    t.match(answer.error, {
      code: 'CERTIFICATE_IN_USE',
      message: /globex/,
      details: {
        total: 1,
        users: [
          {
            kind: 'as2-remote-profile',
            name: 'globex',
            fields: ['partner_certificate_id', 'partner_signing_certificate_id'],
            link: `${REMOTE}/${globex}`,
          },
        ],
      },
    })
    t.equal((await client.delete(`/partners/${globex}`)).error?.code, 'CONFLICT')
    t.equal((await client.delete(`${REMOTE}/${globex}`)).status, 204)
    t.equal((await client.delete(`/certificates/${certificate}`)).status, 204)
  })
})
