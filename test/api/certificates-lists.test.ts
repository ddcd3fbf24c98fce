import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { startApi } from '../support/api.ts'
import { makeCertificate } from '../support/certificates.ts'

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
    // Another one may have the same four digits in its serial number.
    const four = x509.fingerprint256.replaceAll(':', '').slice(0, 4)
    t.ok((await names(`/certificates?q=${four}`)).includes('fresh'))
    t.same(await names('/certificates?q=%25'), [], 'a wildcard is a character')
    t.same(await names('/certificates?q='), ['expired', 'soon', 'later', 'fresh'], 'an empty q is no filter')
  })

  t.test('every list is paged, with the total of what matches', async (t) => {
    t.same(await names('/certificates?limit=2'), ['expired', 'soon'])
    t.same(await names('/certificates?limit=2&offset=3'), ['fresh'])
    t.same(await names('/certificates?offset=4'), [])
    t.same(await names('/certificates/expiring?days=61&limit=1&offset=1'), ['soon'])
    t.same(await names('/certificates?status=valid&limit=1&offset=1'), ['fresh'])
    for (const [path, expected] of [
      ['/certificates?limit=1', { total: 4, limit: 1, offset: 0 }],
      ['/certificates?key=present&offset=1', { total: 2, limit: 20, offset: 1 }],
      ['/certificates?q=the&limit=600', { total: 4, limit: 500, offset: 0 }],
      ['/certificates/expiring?limit=1&offset=5', { total: 2, limit: 1, offset: 5 }],
    ] as const) {
      t.match((await client.get(path)).data, expected, path)
    }
    for (const query of ['limit=0', 'limit=x', 'offset=-1']) {
      for (const path of ['/certificates', '/certificates/expiring']) {
        const { status, error } = await client.get(`${path}?${query}`)
        t.equal(status, 400)
        t.same(Object.keys(error?.details ?? {}), [query.split('=')[0]])
      }
    }
  })

  t.test('q and the other filters combine', async (t) => {
    t.same(await names('/certificates?q=one&status=expired'), ['expired'])
    t.same(await names('/certificates?q=one&key=present&status=valid'), ['fresh'])
    t.same(await names('/certificates?q=soon&status=expired'), [])
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

  t.test('a deleted certificate is gone', async (t) => {
    t.equal((await client.delete(`/certificates/${ids.get('later')}`)).status, 204)
    t.equal((await client.get(`/certificates/${ids.get('later')}`)).status, 404)
  })
})
