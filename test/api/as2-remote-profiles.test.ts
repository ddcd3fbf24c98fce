import t from 'tap'
import { startApi } from '../support/api.ts'
import { storeCertificate } from '../support/as2-partner.ts'
import { makeCertificate } from '../support/certificates.ts'

// On a busy machine many requests add up.
t.setTimeout(200_000)

const PATH = '/as2/remote-profiles'

t.test('/as2/remote-profiles', async (t) => {
  const api = await startApi(t)
  const { client, database } = api
  const stored = (commonName: string, withKey = false, wishes: object = {}) =>
    storeCertificate(api, commonName, makeCertificate({ commonName, ...wishes }), withKey)
  const partner = async (name: string) => Number((await client.create('/partners', { name }))['id'])
  const certificate = await stored('globex edi')
  const globex = await partner('globex')
  const path = `${PATH}/${globex}`
  const profile = {
    business_partner_id: globex,
    as2id: 'GLOBEX',
    endpoint: 'https://as2.globex.example/in',
    partner_certificate_id: certificate,
  }
  const refusal = async (body: object) => {
    const { status, error, text } = await client.post(PATH, { ...profile, ...body })
    if (status !== 400) throw new Error(text)
    return error?.details ?? {}
  }
  const put = async (body: object) => {
    const answer = await client.put(path, body)
    if (answer.status !== 200) throw new Error(answer.text)
    return answer.data
  }
  const refusedUpdate = async (body: object) => {
    const { status, error, text } = await client.put(path, body)
    if (status !== 400) throw new Error(text)
    return error?.details ?? {}
  }

  t.test('encryption needs partner_certificate_id, told beside whatever else is wrong', async (t) => {
    t.same(await refusal({ partner_certificate_id: null }), {
      partner_certificate_id: 'is required while messages to the partner are encrypted',
    })
    const details = await refusal({
      partner_certificate_id: null,
      business_partner_id: 999,
      as2id: '',
      endpoint: 'globex',
      http_basic_username: 'acme',
      tls_client_certificate_id: certificate,
      colour: 'red',
    })
    t.same(Object.keys(details).toSorted(), [
      'as2id',
      'business_partner_id',
      'colour',
      'endpoint',
      'http_basic_password',
      'partner_certificate_id',
      'tls_client_certificate_id',
    ])
  })

  t.test('a receipt that must be signed needs a certificate to verify it, whichever it is', async (t) => {
    const plain = { encryption_algorithm: 'None', partner_certificate_id: null }
    for (const receipt_mode of ['Sync', 'Async']) {
      const details = await refusal({ ...plain, receipt_mode })
      t.same(Object.keys(details), ['partner_signing_certificate_id'], receipt_mode)
      t.match(details, { partner_signing_certificate_id: /receipt_signed to false/ })
    }
    t.same(
      Object.keys(await refusal({ ...plain, receipt_mode: 'sync' })),
      ['receipt_mode'],
      'a mode that is none asks for nothing',
    )
    for (const enough of [
      { receipt_mode: 'None' },
      { receipt_signed: false },
      { partner_certificate_id: certificate },
      { partner_signing_certificate_id: certificate },
      { previous_partner_signing_certificate_id: certificate },
    ]) {
      const { status, text } = await client.post(PATH, { ...profile, ...plain, ...enough })
      t.equal(status, 201, text)
      t.equal((await client.delete(path)).status, 204)
    }
  })

  t.test('values outside their lists and ranges are refused by name', async (t) => {
    const wrong = {
      receipt_timeout_hours: [0, 721, 1.5, '24', null],
      signing_algorithm: ['MD5', 'sha256', null],
      signature_scheme: ['PSS2', ''],
      encryption_algorithm: ['RC4', 'DES', 1],
      key_transport: ['RSA'],
      compression: ['Twice', true],
      receipt_mode: ['sync'],
      receipt_signed: ['true', 1],
      require_signed: [null],
      require_encrypted: ['no'],
      as2_version: ['1.0', 1.2, null],
      micalg_format: ['SHA-256', 'sha-1'],
      oaep_digest: ['SHA512', 'sha256'],
      content_transfer_encoding: ['8bit', ''],
      chunked_transfer: [null, 'no'],
      send_file_name: [1],
      receipt_signing_algorithm: ['None', 'MD5'],
      accept_expired_certificates: ['yes'],
      tls_verify_host_name: [0, false],
      subject: ['a\r\nBcc: x', 'x'.repeat(501), 5],
      content_type: [
        '',
        'text',
        'text/plain\r\nX: y',
        'text/plain; name=ä',
        'multipart/signed',
        'Application/PKCS7-MIME; a=b',
        'multipart/related',
        'Multipart/mixed ; boundary=x',
        'multipart/report; report-type=disposition-notification; boundary=x',
        'message/disposition-notification',
      ],
      as2id: ['x'.repeat(129), 'a\nb', ' a'],
      http_basic_username: ['a:b', 'a\nb'],
      http_basic_password: ['a\nb', 7],
      http_headers: [
        {},
        [{ name: 'X' }],
        [{ name: 'X Y', value: '' }],
        [{ name: '', value: '' }],
        [{ name: 'X', value: 'a\r\nB: c' }],
        [{ name: 'X', value: 'ü' }],
        [{ name: 'X', value: 'y', more: 1 }],
      ],
    }
    for (const [property, values] of Object.entries(wrong)) {
      for (const value of values) {
        const credentials = { http_basic_username: 'acme', http_basic_password: 'p' }
        const details = await refusal({ ...credentials, [property]: value })
        t.same(Object.keys(details), [property], `${property}: ${JSON.stringify(value)}`)
      }
    }
  })

  t.test('the endpoint is an http or https URL without a credential', async (t) => {
    const unfit = [
      'globex',
      'ftp://globex.example/',
      '//globex.example/',
      'https://',
      'https://u:p@globex.example/',
      'https://u@globex.example/',
    ]
    for (const endpoint of [
      ...unfit,
      'https://globex.example/?token=x',
      'https://globex.example/?a=1&API_KEY=x',
    ]) {
      t.same(Object.keys(await refusal({ endpoint })), ['endpoint'], endpoint)
    }
  })

  t.test('headers that AS2, HTTP or basic authentication set are refused on http_headers', async (t) => {
    const owned = [
      'AS2-To',
      'as2-from',
      'Message-ID',
      'Subject',
      'Disposition-Notification-To',
      'Date',
      'User-Agent',
      'AS2-Version',
      'AS2-Product',
      'EDIINT-Features',
    ]
    for (const name of [
      ...owned,
      'Host',
      'Content-Length',
      'Transfer-Encoding',
      'Content-Type',
      'connection',
    ]) {
      const details = await refusal({
        http_headers: [
          { name: 'X-Fine', value: '' },
          { name, value: 'x' },
        ],
      })
      t.match(details, { http_headers: /entry 2, name: cannot be set/ }, name)
    }
    const http_headers = [{ name: 'authorization', value: 'Bearer x' }]
    t.match(await refusal({ http_headers, http_basic_username: 'acme', http_basic_password: 'p' }), {
      http_headers: /basic authentication/,
    })
  })

  t.test('a user name and a password are both given or none is', async (t) => {
    t.same(await refusal({ http_basic_username: 'acme' }), {
      http_basic_password: 'is required with http_basic_username; both empty are none',
    })
    t.same(await refusal({ http_basic_password: 'p' }), {
      http_basic_username: 'is required with http_basic_password; both empty are none',
    })
  })

  t.test('an unknown partner or certificate, and one that lacks the key it needs, are refused', async (t) => {
    t.match(await refusal({ business_partner_id: 999 }), { business_partner_id: 'there is no partner 999' })
    t.match(await refusal({ tls_client_certificate_id: certificate, tls_ca_certificate_id: 999 }), {
      tls_client_certificate_id: `the certificate ${certificate} (globex edi) has no private key`,
      tls_ca_certificate_id: 'there is no certificate 999',
    })
  })

  t.test('the key of a certificate must serve its use', async (t) => {
    const ec = await stored('curve', false, { keyType: 'ec' })
    const pss = await stored('pss', false, { keyType: 'rsa-pss' })
    const weak = await stored('weak', false, { keyType: 'ec', curve: 'prime192v1' })
    const edwards = await stored('edwards', true, { keyType: 'ed25519' })
    t.match(await refusal({ partner_certificate_id: weak, partner_signing_certificate_id: edwards }), {
      partner_certificate_id: /must have an EC key on one of the curves.*\(weak\) is on prime192v1$/,
      partner_signing_certificate_id: /must have an RSA or EC key.*\(edwards\).* Ed25519$/,
    })
    const made = await client.create(PATH, {
      ...profile,
      encryption_algorithm: 'None',
      partner_certificate_id: pss,
      partner_signing_certificate_id: ec,
      tls_client_certificate_id: edwards,
      tls_ca_certificate_id: edwards,
    })
    t.match(made, { partner_signing_certificate_id: ec }, 'an EC key verifies, and TLS takes any')
    t.match(await refusedUpdate({ encryption_algorithm: '3DES' }), { partner_certificate_id: /RSA or EC/ })
    t.equal((await client.delete(path)).status, 204)
  })

  t.test('a profile starts from secure defaults, and a second one is 409 CONFLICT', async (t) => {
    const answer = await client.post(PATH, profile)
    t.equal(answer.status, 201)
    const { created_at, updated_at, ...data } = answer.data
    t.same(data, {
      ...profile,
      subject: '',
      http_basic_username: '',
      partner_signing_certificate_id: null,
      previous_partner_signing_certificate_id: null,
      tls_client_certificate_id: null,
      tls_ca_certificate_id: null,
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
      as2_version: '1.3',
      micalg_format: 'sha-256',
      oaep_digest: 'SHA256',
      content_transfer_encoding: 'binary',
      chunked_transfer: true,
      send_file_name: true,
      receipt_signing_algorithm: 'Auto',
      accept_expired_certificates: false,
      tls_verify_host_name: true,
    })
    t.match([created_at, updated_at], [/^\d{4}-.*Z$/, /^\d{4}-.*Z$/])
    const second = await client.post(PATH, { ...profile, as2id: 'OTHER' })
    t.equal(second.status, 409)
    t.equal(second.error?.code, 'CONFLICT')
  })

  t.test('as2id is unique among remote profiles, not against local ones', async (t) => {
    const { id } = await client.create('/organizations', { name: 'globex' })
    await client.create('/as2/local-profiles', { local_organization_id: id, as2id: 'GLOBEX' })
    const umbrella = await partner('umbrella')
    const details = await refusal({ business_partner_id: umbrella, as2id: 'GLOBEX' })
    t.match(details, { as2id: /another partner/ })
    await client.create(PATH, { ...profile, business_partner_id: umbrella, as2id: 'globex' })
    t.same((await client.get(PATH)).data['total'], 2)
  })

  t.test('secrets are never returned, sealed at rest, and kept when they are left out', async (t) => {
    const credentials = { http_basic_username: 'acme', http_basic_password: 'hunter2' }
    const secret = { ...credentials, http_headers: [{ name: 'X-Key', value: 'hunter2' }] }
    const refused = await client.put(path, { ...secret, receipt_timeout_hours: 0 })
    const other = await client.put(path, { ...secret, business_partner_id: 999 })
    const answers = [await client.put(path, secret), await client.get(path), await client.get(PATH)]
    for (const answer of [refused, other, ...answers]) t.notMatch(answer.text, /hunter2/)
    for (const { text } of answers) t.notMatch(text, /http_basic_password|http_headers/)
    const { rows } = await database.pool.query<{ row: string }>(
      'select r::text as row from as2_remote_profile r',
    )
    t.notMatch(rows.map(({ row }) => row).join(), /hunter2/)
    await put({ subject: 'Orders' })
    t.match(await refusedUpdate({ endpoint: 'https://evil.example/' }), {
      http_basic_password: 'must be sent again, because endpoint changes',
      http_headers: 'must be sent again, because endpoint changes',
    })
  })

  t.test('a change of the endpoint must send again the secrets that are stored, and no others', async (t) => {
    const moved = { endpoint: 'https://new.globex.example/' }
    const none = { http_basic_username: '', http_basic_password: '' }
    t.same(Object.keys(await refusedUpdate({ ...moved, http_headers: [] })), ['http_basic_password'])
    t.same(Object.keys(await refusedUpdate({ ...moved, ...none, receipt_mode: 'x' })).toSorted(), [
      'http_headers',
      'receipt_mode',
    ])
    t.match(
      await put({ endpoint: profile.endpoint }),
      { endpoint: profile.endpoint },
      'the same endpoint is no change',
    )
    await put({ ...moved, http_basic_password: 'again', http_headers: [] })
    t.same(
      Object.keys(await refusedUpdate({ endpoint: profile.endpoint })),
      ['http_basic_password'],
      'an empty list has removed the headers',
    )
    await put(none)
    t.match(await put({ endpoint: profile.endpoint }), { endpoint: profile.endpoint, subject: 'Orders' })
  })

  t.test('the result of an update is validated as a whole', async (t) => {
    t.match(await refusedUpdate({ partner_certificate_id: null }), { partner_certificate_id: /is required/ })
    await put({ tls_verify_host_name: false, tls_ca_certificate_id: certificate })
    t.match(await refusedUpdate({ tls_ca_certificate_id: null }), {
      tls_verify_host_name: /may be false only/,
    })
    await put({ tls_verify_host_name: true, tls_ca_certificate_id: null })
    await put({ partner_certificate_id: null, encryption_algorithm: 'None', receipt_signed: false })
    t.match(await refusedUpdate({ encryption_algorithm: '3DES' }), { partner_certificate_id: /is required/ })
    t.same(Object.keys(await refusedUpdate({ receipt_signed: true })), ['partner_signing_certificate_id'])
    await put({
      partner_certificate_id: certificate,
      encryption_algorithm: 'AES128-GCM',
      receipt_signed: true,
    })
    await put({ http_basic_username: 'acme', http_basic_password: 'p' })
    t.match(await refusedUpdate({ http_basic_password: '' }), { http_basic_password: /is required with/ })
    t.same(
      await refusedUpdate({ http_basic_username: '' }),
      { http_basic_username: 'is required with http_basic_password; both empty are none' },
      'a user name alone is not removed: its password would stay',
    )
    await put({ http_basic_username: '', http_basic_password: '' })
    const combination = { compression: 'AfterSigning', signing_algorithm: 'None', signature_scheme: 'PSS' }
    t.match(await put({ ...combination, receipt_mode: 'None' }), { ...combination, receipt_signed: true })
  })

  t.test('a body that names another partner is refused on business_partner_id', async (t) => {
    t.match(await refusedUpdate({ business_partner_id: globex + 1 }), { business_partner_id: /in the path/ })
    t.match(await refusedUpdate({ business_partner_id: String(globex) }), { business_partner_id: /number/ })
    t.equal((await client.put(`${PATH}/999`, { subject: 5 })).status, 404)
  })

  t.test('certificates and the partner that it uses cannot be deleted before it', async (t) => {
    await put({ partner_signing_certificate_id: certificate })
    const answer = await client.delete(`/certificates/${certificate}`)
    t.equal(answer.status, 409)
    t.match(answer.error, {
      code: 'CERTIFICATE_IN_USE',
      message: /globex.*partner_certificate_id/,
      details: {
        users: [{ kind: 'as2-remote-profile', name: 'globex', link: path }, { name: 'umbrella' }],
        total: 2,
      },
    })
    t.match((await client.delete(`/partners/${globex}`)).error, {
      code: 'CONFLICT',
      details: { users: [{ kind: 'as2-remote-profile', fields: ['business_partner_id'], link: path }] },
    })
    t.equal((await client.delete(path)).status, 204)
    t.equal((await client.delete(path)).status, 404)
    t.equal((await client.delete(`/partners/${globex}`)).status, 204)
  })
})
