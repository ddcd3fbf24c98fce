import { createHash } from 'node:crypto'
import t from 'tap'
import { query } from '../../storage/postgres/pool.ts'
import { startApi } from '../support/api.ts'
import { makeCertificate, type TestCertificate } from '../support/certificates.ts'
import type { Answer } from '../support/client.ts'
import { writePkcs12 } from '../support/pkcs12.ts'
import { writePkcs7 } from '../support/pkcs7.ts'

type Parts = Record<string, string | Uint8Array<ArrayBuffer>>

interface Found {
  readonly found: {
    readonly certificates: readonly Record<string, unknown>[]
    readonly keys: readonly Record<string, unknown>[]
  }
  readonly notes: readonly string[]
  readonly import_token: string
  readonly expires_at: string
}

const pemsOf = (...made: TestCertificate[]) => made.map(({ certificatePem }) => certificatePem).join('')
const statusesOf = (answers: readonly Answer[]) =>
  answers.map(({ status }) => status).toSorted((one, other) => one - other)
const make = (commonName: string) => makeCertificate({ commonName, keyType: 'ec' })

t.test('an upload that is not a single certificate with a description', async (t) => {
  const { client } = await startApi(t)
  const upload = (parts: Parts) => client.ask('POST', '/certificates', { parts })
  const found = async (parts: Parts): Promise<Found> => {
    const answer = await upload(parts)
    t.equal(answer.status, 200, answer.text)
    t.notMatch(answer.text, /PRIVATE KEY|pkcs8/)
    return answer.data as unknown as Found
  }
  const total = async () => (await client.get('/certificates')).data['total']

  t.test('stores nothing and answers what was found', async (t) => {
    const [one, two, three] = [make('one'), make('two'), make('three')]
    const answer = await found({ certificate: pemsOf(one, two) + two.privateKeyPem + three.privateKeyPem })
    t.same(Object.keys(answer).toSorted(), ['expires_at', 'found', 'import_token', 'notes'])
    t.match(answer.found, {
      certificates: [
        {
          index: 0,
          common_name: 'one',
          subject: 'CN=one',
          state: 'valid',
          key_algorithm: 'EC',
          has_private_key: false,
          private_key_matches: false,
          key_index: null,
          existing_id: null,
        },
        { index: 1, common_name: 'two', has_private_key: true, private_key_matches: true, key_index: 0 },
      ],
      keys: [
        { index: 0, algorithm: 'EC', size: 256, certificate_index: 1 },
        { index: 1, algorithm: 'EC', size: 256, certificate_index: null },
      ],
    })
    t.match(answer.notes, [/not imported: private key 1/])
    t.match(answer.import_token, /^[\w-]{40,}$/)
    const leftMs = new Date(answer.expires_at).getTime() - Date.now()
    t.ok(leftMs > 8 * 60_000 && leftMs < 12 * 60_000, 'ten minutes')
    t.equal(await total(), 0)
  })

  t.test('is a bundle with a description, and a certificate without one', async (t) => {
    const [one, two] = [make('with'), make('without')]
    const files = {
      PEM: pemsOf(one, two),
      'PKCS#7': new Uint8Array(writePkcs7([one, two])),
      'PKCS#12': new Uint8Array(writePkcs12({ certificates: [one, two], keysOf: [one], password: '' })),
    }
    for (const [name, certificate] of Object.entries(files)) {
      t.equal((await found({ certificate, description: 'both' })).found.certificates.length, 2, name)
    }
    for (const parts of [{}, { description: '' }, { description: '   ' }]) {
      const { certificates } = (await found({ certificate: one.certificatePem, ...parts })).found
      t.match(certificates, [{ common_name: 'with' }])
    }
    t.equal(await total(), 0)
  })

  t.test('is a private key alone, which is listed', async (t) => {
    const { found: held, notes } = await found({ certificate: make('key').privateKeyPem, description: 'x' })
    t.same(held, {
      certificates: [],
      keys: [{ index: 0, algorithm: 'EC', size: 256, certificate_index: null }],
    })
    t.match(notes, [/no certificate, so that nothing can be imported/])
  })

  t.test('says which of its certificates are stored', async (t) => {
    const [stored, other] = [make('stored'), make('other')]
    const { data } = await upload({ certificate: stored.certificatePem, description: 'stored' })
    const { certificates } = (await found({ certificate: pemsOf(other, stored) })).found
    t.same(
      certificates.map(({ existing_id }) => existing_id),
      [null, data['id']],
    )
    const alone = await upload({ certificate: stored.certificatePem })
    t.match(alone, {
      status: 409,
      error: { code: 'CERTIFICATE_EXISTS', details: { existing_id: data['id'] } },
    })
    const withKey = await upload({ certificate: stored.certificatePem, private_key: stored.privateKeyPem })
    t.match(withKey, { status: 409, error: { message: /without a private key/ } })
  })
})

t.test('POST /certificates/import', async (t) => {
  const { client, database } = await startApi(t)
  const offered = async (certificate: string, private_key?: string) => {
    const parts = private_key === undefined ? { certificate } : { certificate, private_key }
    const answer = await client.ask('POST', '/certificates', { parts })
    t.equal(answer.status, 200, answer.text)
    return String(answer.data['import_token'])
  }
  const imported = (import_token: unknown, certificates: unknown): Promise<Answer> =>
    client.post('/certificates/import', { import_token, certificates })
  const refused = async (import_token: unknown, certificates: unknown) => {
    const answer = await imported(import_token, certificates)
    t.equal(answer.status, 400, answer.text)
    return answer.error?.details ?? {}
  }
  const total = async () => Number((await client.get('/certificates')).data['total'])

  t.test(
    'stores the chosen ones, each with its key and description, in the order of the choice',
    async (t) => {
      const made = ['a', 'b', 'c'].map(make)
      const token = await offered(pemsOf(...made) + (made[1]?.privateKeyPem ?? ''))
      const answer = await imported(token, [
        { index: 1, description: ' The second ' },
        { index: 0, description: 'The first' },
      ])
      t.equal(answer.status, 201, answer.text)
      t.match(answer.data['certificates'], [
        { common_name: 'b', description: 'The second', has_private_key: true, private_key_matches: true },
        { common_name: 'a', description: 'The first', has_private_key: false, private_key_matches: false },
      ])
      t.notMatch(answer.text, /PRIVATE KEY/)
      const [first] = answer.data['certificates'] as { id: number }[]
      t.same((await client.get(`/certificates/${first?.id}`)).data, first)
      t.equal(await total(), 2, 'the third was not chosen')
      const download = await client.get(`/certificates/${first?.id}/download`)
      t.equal(download.text, made[1]?.certificatePem)
    },
  )

  t.test('a profile can use an imported certificate with its key', async (t) => {
    const rsa = makeCertificate({ commonName: 'signs' })
    const token = await offered(rsa.certificatePem + rsa.privateKeyPem)
    const { data } = await imported(token, [{ index: 0, description: 'signs' }])
    const [{ id } = { id: 0 }] = data['certificates'] as { id: number }[]
    const party = await client.create('/organizations', { name: 'acme' })
    const profile = { local_organization_id: party['id'], as2id: 'ACME', signing_certificate_id: id }
    t.match(await client.create('/as2/local-profiles', profile), { signing_certificate_id: id })
  })

  t.test('a token works once, also when it comes twice at the same moment', async (t) => {
    const token = await offered(make('once').certificatePem)
    const choice = [{ index: 0, description: 'once' }]
    const answers = await Promise.all(Array.from({ length: 4 }, () => imported(token, choice)))
    t.same(statusesOf(answers), [201, 400, 400, 400])
    t.match(await refused(token, choice), { import_token: /unknown, was used already or is older than 10/ })
  })

  t.test('an unknown, malformed or missing token is refused on import_token', async (t) => {
    const choice = [{ index: 0, description: 'x' }]
    t.same(Object.keys(await refused('unknown', choice)), ['import_token'])
    t.same(Object.keys(await refused('', choice)), ['import_token'])
    t.same(Object.keys(await refused(7, choice)), ['import_token'])
    t.same(Object.keys(await refused('x'.repeat(1000), choice)), ['import_token'])
    t.same(await refused(undefined, choice), { import_token: 'is required' })
  })

  t.test('a token that has expired is refused, and what it stood for is removed', async (t) => {
    const token = await offered(make('late').certificatePem)
    await query(database.pool, 'update certificate_import set expires_at = now()')
    t.match(await refused(token, [{ index: 0, description: 'late' }]), {
      import_token: /older than 10 minutes/,
    })
    await offered(make('next').certificatePem)
    const rows = await query<{ count: number }>(
      database.pool,
      'select count(*)::int as count from certificate_import where expires_at <= now()',
    )
    t.same(rows, [{ count: 0 }])
  })

  t.test('a choice that cannot be is refused on certificates, and the token stays', async (t) => {
    const before = await total()
    const token = await offered(pemsOf(make('x'), make('y')))
    const choices: Record<string, unknown> = {
      'unknown index': [{ index: 2, description: 'x' }],
      'one known, one unknown index': [
        { index: 0, description: 'x' },
        { index: 7, description: 'y' },
      ],
      'index twice': [
        { index: 0, description: 'x' },
        { index: 0, description: 'y' },
      ],
      'negative index': [{ index: -1, description: 'x' }],
      'index that is no number': [{ index: '0', description: 'x' }],
      'no index': [{ description: 'x' }],
      'no description': [{ index: 0 }],
      'empty description': [{ index: 0, description: ' ' }],
      'long description': [{ index: 0, description: 'x'.repeat(501) }],
      'unknown property': [{ index: 0, description: 'x', key: 1 }],
      'nothing chosen': [],
      'no list': { index: 0, description: 'x' },
      'left out': undefined,
    }
    for (const [name, choice] of Object.entries(choices)) {
      t.same(Object.keys(await refused(token, choice)), ['certificates'], name)
    }
    t.equal(await total(), before)
    t.equal((await imported(token, [{ index: 1, description: 'y' }])).status, 201)
  })

  t.test('nothing can be chosen of an upload without certificates', async (t) => {
    const token = await offered(make('alone').privateKeyPem)
    t.match(await refused(token, [{ index: 0, description: 'x' }]), { certificates: /held no certificate/ })
  })

  t.test('one that was stored meanwhile refuses all, and the token stays', async (t) => {
    const [one, two] = [make('first'), make('second')]
    const token = await offered(pemsOf(one, two))
    const { data } = await client.ask('POST', '/certificates', {
      parts: { certificate: two.certificatePem, description: 'meanwhile' },
    })
    const before = await total()
    const both = [0, 1].map((index) => ({ index, description: 'both' }))
    t.match(await imported(token, both), {
      status: 409,
      error: {
        code: 'CERTIFICATE_EXISTS',
        message: /second, meanwhile/,
        details: { existing_id: data['id'] },
      },
    })
    t.equal(await total(), before)
    t.equal((await imported(token, both.slice(0, 1))).status, 201)
  })

  t.test('of two imports of the same certificates at once one stores them all', async (t) => {
    const made = Array.from({ length: 6 }, (_, at) => make(`both ${at}`))
    const before = await total()
    const tokens = [await offered(pemsOf(...made)), await offered(pemsOf(...made.toReversed()))]
    const choice = made.map((_, index) => ({ index, description: 'both' }))
    const answers = await Promise.all(tokens.map((token) => imported(token, choice)))
    t.same(statusesOf(answers), [201, 409])
    t.equal(await total(), before + 6)
  })

  t.test('of an import and an upload of the same certificate at once one stores it', async (t) => {
    for (let round = 0; round < 5; round += 1) {
      const made = make(`race ${round}`)
      const token = await offered(made.certificatePem)
      const answers = await Promise.all([
        imported(token, [{ index: 0, description: 'import' }]),
        client.ask('POST', '/certificates', {
          parts: { certificate: made.certificatePem, description: 'upload' },
        }),
      ])
      t.same(statusesOf(answers), [201, 409])
    }
  })

  t.test('only the hash of a token is stored, and keys are sealed', async (t) => {
    const made = makeCertificate({ commonName: 'sealed' })
    const token = await offered(made.certificatePem + made.privateKeyPem)
    const [row] = await query<{ material: string }>(
      database.pool,
      'select material from certificate_import where token_hash = $1',
      [createHash('sha256').update(token).digest()],
    )
    t.match(row?.material, /^v1:/)
    const rows = await query<Record<string, unknown>>(database.pool, 'select * from certificate_import')
    const everything = JSON.stringify(rows)
    t.notMatch(everything, token)
    const pkcs8 = made.privateKey.export({ format: 'der', type: 'pkcs8' })
    t.notOk(everything.includes(pkcs8.toString('base64').slice(0, 40)))
    t.notOk(everything.includes('sealed'))
  })
})
