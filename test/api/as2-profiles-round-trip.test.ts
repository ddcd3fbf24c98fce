import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { startApi } from '../support/api.ts'
import { storeCertificate } from '../support/as2-partner.ts'
import { makeCertificate } from '../support/certificates.ts'

// On a busy machine many requests add up.
t.setTimeout(200_000)

const RUNS = { numRuns: 40 }

/** 1 to 128 printable ASCII characters with no space at either end. */
const as2id = fc
  .string({
    unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: 1,
    maxLength: 128,
  })
  .map((text) => text.trim())
  .filter((text) => text !== '')

/** Well-formed text without control characters, as long as a property may be. */
const text = (maxLength: number) =>
  fc.string({ unit: 'grapheme', maxLength }).map((each) => {
    const clean = each.replaceAll(/\p{Cc}/gu, '').toWellFormed()
    return clean.length > maxLength ? '' : clean
  })

const ascii = (maxLength: number) =>
  fc.stringMatching(/^[!-~]{0,40}$/).map((each) => each.slice(0, maxLength))

const endpoint = fc
  .record({
    scheme: fc.constantFrom('http', 'https'),
    host: fc.constantFrom('as2.globex.example', '127.0.0.1', '[::1]', 'localhost', 'xn--bcher-kva.example'),
    port: fc.option(fc.integer({ min: 1, max: 65_535 }), { nil: null }),
    path: fc.webPath(),
  })
  .map(
    ({ scheme, host, port, path }) => `${scheme}://${host}${port === null ? '' : `:${port}`}${path || '/'}`,
  )

t.test('AS2 profiles', async (t) => {
  const api = await startApi(t)
  const { client } = api
  const own = await storeCertificate(api, 'own', makeCertificate({ commonName: 'own' }), true)
  const other = await storeCertificate(api, 'other', makeCertificate({ commonName: 'other' }), true)
  const organization = Number((await client.create('/organizations', { name: 'acme' }))['id'])
  const partner = Number((await client.create('/partners', { name: 'globex' }))['id'])
  const certificate = fc.constantFrom(own, other)
  const maybe = fc.constantFrom(null, own, other)

  /** Stores a record, reads it, puts it back as it was read, and deletes it. */
  async function travels(path: string, id: number, body: object): Promise<void> {
    const created = await client.create(path, body)
    const { data: read } = await client.get(`${path}/${id}`)
    assert.deepEqual(read, created)
    const { http_basic_password: _, http_headers: __, ...shown } = body as Record<string, unknown>
    assert.deepEqual({ ...read, ...shown }, read)
    const back = await client.put(`${path}/${id}`, read)
    assert.equal(back.status, 200, back.text)
    assert.deepEqual({ ...back.data, updated_at: null }, { ...read, updated_at: null })
    assert.equal((await client.delete(`${path}/${id}`)).status, 204)
  }

  t.test('every valid local profile is stored, read, put back and deleted', async () => {
    const profile = fc.record(
      {
        local_organization_id: fc.constant(organization),
        as2id,
        signing_certificate_id: maybe,
        decryption_certificate_id: maybe,
        previous_decryption_certificate_id: maybe,
      },
      { requiredKeys: ['local_organization_id', 'as2id'] },
    )
    await fc.assert(
      fc.asyncProperty(profile, (body) => travels('/as2/local-profiles', organization, body)),
      RUNS,
    )
  })

  t.test('every valid remote profile is stored, read, put back and deleted', async () => {
    const credential = fc.oneof(
      fc.constant({}),
      fc.record({
        http_basic_username: text(200).map((each) => each.replaceAll(':', '') || 'acme'),
        http_basic_password: text(500).map((each) => each || 'secret'),
      }),
    )
    const profile = fc.record(
      {
        business_partner_id: fc.constant(partner),
        as2id,
        endpoint,
        subject: text(500),
        http_headers: fc.array(
          fc.record({ name: fc.stringMatching(/^X-[A-Za-z0-9-]{1,30}$/), value: ascii(40) }),
          { maxLength: 5 },
        ),
        partner_certificate_id: certificate,
        partner_signing_certificate_id: maybe,
        previous_partner_signing_certificate_id: maybe,
        tls_client_certificate_id: maybe,
        tls_ca_certificate_id: maybe,
        compression: fc.constantFrom('None', 'BeforeSigning', 'AfterSigning'),
        signing_algorithm: fc.constantFrom('None', 'SHA1', 'SHA256', 'SHA384', 'SHA512'),
        signature_scheme: fc.constantFrom('PKCS1', 'PSS'),
        encryption_algorithm: fc.constantFrom('None', '3DES', 'AES128-CBC', 'AES256-CBC', 'AES192-GCM'),
        key_transport: fc.constantFrom('PKCS1', 'OAEP'),
        receipt_mode: fc.constantFrom('None', 'Sync', 'Async'),
        receipt_signed: fc.boolean(),
        receipt_timeout_hours: fc.integer({ min: 1, max: 720 }),
        require_signed: fc.boolean(),
        require_encrypted: fc.boolean(),
        content_type: fc.constantFrom('text/plain', 'application/edi-x12', 'text/xml; charset=utf-8'),
        as2_version: fc.constantFrom('1.1', '1.2', '1.3'),
        micalg_format: fc.constantFrom('sha-256', 'sha256'),
        oaep_digest: fc.constantFrom('SHA1', 'SHA256'),
        content_transfer_encoding: fc.constantFrom('binary', 'base64'),
        chunked_transfer: fc.boolean(),
        send_file_name: fc.boolean(),
        accept_expired_certificates: fc.boolean(),
        receipt_signing_algorithm: fc.constantFrom('Auto', 'SHA1', 'SHA256', 'SHA384', 'SHA512'),
      },
      { requiredKeys: ['business_partner_id', 'as2id', 'endpoint', 'partner_certificate_id'] },
    )

    await fc.assert(
      fc.asyncProperty(profile, credential, (body, secrets) =>
        travels('/as2/remote-profiles', partner, { ...body, ...secrets }),
      ),
      RUNS,
    )
  })

  t.test('whatever is sent, the answer is a clear one', async (t) => {
    const valid = {
      business_partner_id: partner,
      as2id: 'GLOBEX',
      endpoint: 'https://as2.globex.example/',
      partner_certificate_id: own,
    }
    const names = [...Object.keys(await client.create('/as2/remote-profiles', valid)), 'http_headers', 'x']
    t.equal((await client.delete(`/as2/remote-profiles/${partner}`)).status, 204)
    const hostile = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.string({ unit: 'binary' }),
      fc.constantFrom('\0', '\ud800', '', 'x'.repeat(3_000), -1, 2 ** 31, 2 ** 53, 1e300, 0.5),
      fc.constantFrom(
        'http://[',
        'http://a b/',
        'http://x/#y',
        'https://é.example/',
        "');drop table partner;--",
      ),
    )
    const change = fc.dictionary(fc.constantFrom(...names), hostile, { minKeys: 1, maxKeys: 4 })
    for (const [path, id, base] of [
      ['/as2/remote-profiles', partner, valid],
      ['/as2/local-profiles', organization, { local_organization_id: organization, as2id: 'ACME' }],
    ] as const) {
      await fc.assert(
        fc.asyncProperty(change, async (body) => {
          const sent = { ...base, ...body }
          const answer = await client.post(path, sent)
          assert.ok([201, 400].includes(answer.status), `${JSON.stringify(sent)} ${answer.text}`)
          if (answer.status === 201) {
            const updated = await client.put(`${path}/${id}`, body)
            assert.ok([200, 400].includes(updated.status), `${JSON.stringify(body)} ${updated.text}`)
            assert.equal((await client.delete(`${path}/${id}`)).status, 204)
          } else assert.notDeepEqual(answer.error?.details ?? {}, {})
        }),
        RUNS,
      )
    }
  })
})
