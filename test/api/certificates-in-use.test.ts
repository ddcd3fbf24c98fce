import t from 'tap'
import { startApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'
import type { ApiClient } from '../support/client.ts'

const rsa = makeCertificate({ commonName: 'key of all' })

async function store(client: ApiClient, commonName: string): Promise<number> {
  // A key of its own for each would take a second.
  const { certificatePem, privateKeyPem } = makeCertificate({ commonName, key: rsa })
  const parts = { certificate: certificatePem, private_key: privateKeyPem, description: commonName }
  const { data, status, text } = await client.ask('POST', '/certificates', { parts })
  if (status !== 201) throw new Error(text)
  return Number(data['id'])
}

t.test('DELETE /certificates/{id} is refused with 409 CERTIFICATE_IN_USE', async (t) => {
  const { client } = await startApi(t)

  t.test(
    'while a profile of an organization or a partner refers to it, in any certificate field',
    async (t) => {
      const acme = await client.create('/organizations', { name: 'acme' })
      const globex = await client.create('/partners', { name: 'globex' })
      const idle = await store(client, 'idle')
      const fields = {
        '/as2/local-profiles': [
          'signing_certificate_id',
          'decryption_certificate_id',
          'previous_decryption_certificate_id',
        ],
        '/as2/remote-profiles': [
          'partner_certificate_id',
          'partner_signing_certificate_id',
          'previous_partner_signing_certificate_id',
          'tls_client_certificate_id',
          'tls_ca_certificate_id',
        ],
      }
      await client.create('/as2/local-profiles', { local_organization_id: acme['id'], as2id: 'ACME' })
      await client.create('/as2/remote-profiles', {
        business_partner_id: globex['id'],
        as2id: 'GLOBEX',
        endpoint: 'http://as2.globex.example/',
        partner_certificate_id: idle,
      })
      for (const [path, names] of Object.entries(fields)) {
        const local = path.includes('local')
        const link = `${path}/${String((local ? acme : globex)['id'])}`
        const users = {
          kind: local ? 'as2-local-profile' : 'as2-remote-profile',
          name: local ? 'acme' : 'globex',
        }
        for (const field of names) {
          const id = await store(client, field)
          t.equal((await client.put(link, { [field]: id })).status, 200, field)
          const answer = await client.delete(`/certificates/${id}`)
          t.equal(answer.status, 409, field)
          t.equal(answer.error?.code, 'CERTIFICATE_IN_USE')
          t.match(answer.error?.message, new RegExp(`${users.kind} ${users.name} \\(${field}\\)`))
          t.same(answer.error?.details, { users: [{ ...users, fields: [field], link }], total: 1 }, field)
          await client.put(link, { [field]: field === 'partner_certificate_id' ? idle : null })
          t.equal((await client.delete(`/certificates/${id}`)).status, 204, 'it is not in use any more')
        }
      }
    },
  )

  t.test('naming all fields of a profile', async (t) => {
    const id = await store(client, 'in two fields')
    const party = await client.create('/organizations', { name: 'two-fields' })
    await client.create('/as2/local-profiles', {
      local_organization_id: party['id'],
      as2id: 'TWO',
      signing_certificate_id: id,
      decryption_certificate_id: id,
    })
    t.match((await client.delete(`/certificates/${id}`)).error, {
      message: /two-fields \(signing_certificate_id, decryption_certificate_id\)/,
      details: { users: [{ fields: ['signing_certificate_id', 'decryption_certificate_id'] }], total: 1 },
    })
  })

  t.test('while a plugin instance refers to it', async (t) => {
    const id = await store(client, 'of a receiver')
    await client.create('/plugins/configs?type=as2-receiver', { name: 'tls', tls_certificate_id: id })
    t.match((await client.delete(`/certificates/${id}`)).error, {
      code: 'CERTIFICATE_IN_USE',
      details: {
        users: [
          {
            kind: 'plugin-configuration',
            name: 'tls',
            fields: ['tls_certificate_id'],
            link: '/plugins/configs/as2-receiver/tls',
          },
        ],
      },
    })
    const [trusted, also] = [await store(client, 'an authority'), await store(client, 'a partner')]
    await client.put('/plugins/configs/as2-receiver/tls', {
      tls_client_certificate: 'required',
      tls_client_ca_certificate_ids: [trusted, also],
    })
    const { error } = await client.delete(`/certificates/${also}`)
    t.match(error, {
      code: 'CERTIFICATE_IN_USE',
      details: { users: [{ name: 'tls', fields: ['tls_client_ca_certificate_ids'] }], total: 1 },
    })
    await client.put('/plugins/configs/as2-receiver/tls', { tls_client_ca_certificate_ids: [trusted] })
    t.equal((await client.delete(`/certificates/${also}`)).status, 204, 'it is not in use any more')
  })

  t.test('naming 25 of 30 users, and counting all', async (t) => {
    const id = await store(client, 'of thirty')
    const names = Array.from({ length: 30 }, (_, at) => `many-${String(at).padStart(2, '0')}`)
    for (const name of names) {
      const party = await client.create('/organizations', { name })
      const profile = { local_organization_id: party['id'], as2id: name, signing_certificate_id: id }
      await client.create('/as2/local-profiles', profile)
    }
    const { error } = await client.delete(`/certificates/${id}`)
    const { users, total } = (error?.details ?? {}) as { users: { name: string }[]; total: number }
    t.equal(total, 30)
    t.same(
      users.map(({ name }) => name),
      names.slice(0, 25),
    )
    t.match(
      error?.message,
      /many-00 \(signing_certificate_id\).*many-24 \(signing_certificate_id\) and 5 more$/,
    )
  })
})

t.test('a certificate is never deleted under a profile that is saved at the same moment', async (t) => {
  const { client } = await startApi(t)
  const outcomes = new Set<string>()
  for (let round = 0; round < 12; round += 1) {
    const id = await store(client, `round ${round}`)
    const name = `round-${round}`
    const party = await client.create('/organizations', { name })
    const profile = { local_organization_id: party['id'], as2id: name, signing_certificate_id: id }
    const save = () => client.post('/as2/local-profiles', profile)
    const remove = () => client.delete(`/certificates/${id}`)
    // Who comes first is chance; each of the two is sent first in turn.
    const [one, other] = await Promise.all(round % 2 === 0 ? [save(), remove()] : [remove(), save()])
    const [saved, deleted] = round % 2 === 0 ? [one, other] : [other, one]
    outcomes.add(`${saved.status} ${deleted.status}`)
    if (saved.status === 201) {
      t.equal(deleted.status, 409, deleted.text)
      t.match(deleted.error, { code: 'CERTIFICATE_IN_USE', details: { users: [{ name }], total: 1 } })
    } else {
      t.equal(deleted.status, 204, deleted.text)
      t.match(saved, { status: 400, error: { details: { signing_certificate_id: /no certificate/ } } })
    }
  }
  t.ok([...outcomes].every((outcome) => ['201 409', '400 204'].includes(outcome)))
})
