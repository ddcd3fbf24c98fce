import { hash, randomUUID } from 'node:crypto'
import t from 'tap'
import { startApi } from '../support/api.ts'

t.test('/messages', async (t) => {
  const { client, database } = await startApi(t)
  const { pool } = database
  const stage = (bytes: string) => ({
    size_bytes: bytes.length,
    sha256: hash('sha256', bytes, 'hex'),
    stored_at: '2026-01-02T03:04:05.000Z',
  })
  const stored = async (facts: {
    from: string
    to: string
    status: string
    at: string
    stages: Record<string, string>
  }) => {
    const id = randomUUID()
    const stage_of: Record<string, string> = { Received: 'accepted', InProgress: 'dispatched' }
    const settled = stage_of[facts.status] === undefined
    await pool.query(
      `insert into message (id, direction, stage, status, source, from_party, to_party, file_name, content_type, size_bytes, payloads, protocols, created_at, updated_at, settled_at)
       values ($1, 'inbound', $2, $3, 'as2-in', $4, $5, 'Rechnung ü.edi', 'application/edifact', 5, $6, $7, $8, $8, $9)`,
      [
        id,
        stage_of[facts.status] ?? 'settled',
        facts.status,
        facts.from,
        facts.to,
        JSON.stringify(
          Object.fromEntries(Object.entries(facts.stages).map(([name, bytes]) => [name, stage(bytes)])),
        ),
        JSON.stringify({ as2: { message_id: '<1@globex>' } }),
        facts.at,
        settled ? facts.at : null,
      ],
    )
    for (const [name, bytes] of Object.entries(facts.stages)) {
      await pool.query('insert into journal (message_id, stage, bytes) values ($1, $2, $3)', [
        id,
        name,
        Buffer.from(bytes),
      ])
    }
    return id
  }
  const full = await stored({
    from: 'globex',
    to: 'acme',
    status: 'Delivered',
    at: '2026-03-01T00:00:00Z',
    stages: { unpacked: 'UNB+1', received: 'body', headers: 'AS2-To: x\r\n', receipt: 'MDN' },
  })
  await pool.query(
    `insert into delivery (message_id, target, state, attempts, finished_at) values ($1, 'files', 'delivered', 1, now())`,
    [full],
  )
  await pool.query(
    `insert into history (message_id, kind, new_status) values ($1, 'status_changed', 'Received')`,
    [full],
  )
  const bare = await stored({
    from: 'initech',
    to: 'acme',
    status: 'Refused',
    at: '2026-01-01T00:00:00Z',
    stages: { received: 'x' },
  })
  const none = await stored({
    from: 'globex',
    to: 'acme',
    status: 'NotRouted',
    at: '2026-02-01T00:00:00Z',
    stages: {},
  })
  const ids = async (query: string) => {
    const { data } = await client.get(`/messages${query}`)
    return (data['messages'] as { id: string }[]).map(({ id }) => id)
  }

  t.test('a message is shown with deliveries, history, payloads and protocols', async (t) => {
    const { data, status } = await client.get(`/messages/${full}`)
    t.equal(status, 200)
    t.match(data, {
      id: full,
      status: 'Delivered',
      stage: 'settled',
      direction: 'inbound',
      source: 'as2-in',
      from: 'globex',
      to: 'acme',
      file_name: 'Rechnung ü.edi',
      content_type: 'application/edifact',
      size_bytes: 5,
      created_at: '2026-03-01T00:00:00.000Z',
      deliveries: [
        { target: 'files', state: 'delivered', attempts: 1, next_attempt_at: null, last_error: null },
      ],
      history: [{ kind: 'status_changed', new_status: 'Received', message_id: full }],
      payloads: { unpacked: { size_bytes: 5, stored_at: '2026-01-02T03:04:05.000Z' } },
      protocols: { as2: { message_id: '<1@globex>' } },
    })
    t.same((await client.get(`/messages/${full.toUpperCase()}`)).data, data)
  })

  t.test('a malformed id is refused on id, an unknown one is 404', async (t) => {
    for (const path of ['/messages/1', '/messages/x/payload', `/messages/${full}0`]) {
      t.same(Object.keys((await client.get(path)).error?.details ?? {}), ['id'])
    }
    for (const path of [`/messages/${randomUUID()}`, `/messages/${randomUUID()}/payload`]) {
      t.equal((await client.get(path)).error?.code, 'NOT_FOUND')
    }
  })

  t.test('the list is newest first, by 50, and an item is what GET shows', async (t) => {
    const { data } = await client.get('/messages')
    t.match(data, { total: 3, limit: 50, offset: 0 })
    t.same(await ids(''), [full, none, bare])
    t.same((data['messages'] as unknown[])[0], (await client.get(`/messages/${full}`)).data)
    t.same(await ids('?limit=1&offset=1'), [none])
  })

  t.test('filters combine; an unknown party answers an empty list, an unknown status 400', async (t) => {
    t.same(await ids('?from=globex'), [full, none])
    t.same(await ids('?from=globex&status=NotRouted'), [none])
    t.same(await ids('?to=nobody'), [])
    t.same(await ids('?since=2026-02-01T01:00:00%2B01:00'), [full, none])
    t.same(await ids('?since=2026-02-01T00:00:00.001Z'), [full])
    t.same(await ids('?since=2026-02-01t00:00:00.000000z'), [full, none])
    t.same(await ids('?since=2026-02-01T00:00:00.0000001Z'), [full], 'finer than the database knows')
    t.same(await ids('?since=0000-01-01T00:00:00Z'), [full, none, bare])
    t.same(await ids('?since=9999-12-31T23:59:59-23:59'), [])
    t.same(await ids('?from=globex&to=acme&status=Delivered&since=2026-01-01T00:00:00Z'), [full])
    t.match((await client.get('/messages?from=globex&limit=1')).data, { total: 2, limit: 1, offset: 0 })
    t.match((await client.get('/messages?status=Refused&offset=1')).data, { total: 1, messages: [] })
    for (const query of [
      'status=delivered',
      'status=',
      'from=',
      'since=yesterday',
      'since=2026-02-01',
      'since=2026-02-30T00:00:00Z',
      'since=2026-02-01T00:00:60Z',
      'since=2026-02-01T01:00:00+01:00',
      'since=',
    ]) {
      const { error } = await client.get(`/messages?${query}`)
      t.same(Object.keys(error?.details ?? {}), [query.split('=')[0]], query)
    }
  })

  t.test('a payload is served as bytes of the stage that is asked for', async (t) => {
    const payload = async (id: string, query: string) => {
      const answer = await client.get(`/messages/${id}/payload${query}`)
      t.equal(answer.headers.get('content-type'), 'application/octet-stream')
      return [answer.text, answer.headers.get('content-disposition')]
    }
    t.same(await payload(full, ''), [
      'UNB+1',
      `attachment; filename="Rechnung _.edi"; filename*=UTF-8''Rechnung%20%C3%BC.edi`,
    ])
    t.same(await payload(full, '?stage=received'), ['body', `attachment; filename="${full}-received"`])
    t.same(await payload(full, '?stage=receipt'), ['MDN', `attachment; filename="${full}-receipt.eml"`])
    t.same(await payload(full, '?stage=message'), [
      'AS2-To: x\r\n\r\nbody',
      `attachment; filename="${full}.eml"`,
    ])
    t.same(await payload(bare, ''), ['x', `attachment; filename="${bare}-received"`], 'the first that it has')
  })

  t.test('a stage the message lacks is 404, an unknown one is refused on stage', async (t) => {
    for (const [id, stage] of [
      [bare, 'unpacked'],
      [bare, 'message'],
      [bare, 'receipt'],
      [none, 'received'],
    ] as const) {
      const answer = await client.get(`/messages/${id}/payload?stage=${stage}`)
      t.equal(answer.status, 404)
      t.equal(answer.error?.code, 'NOT_FOUND')
    }
    t.equal((await client.get(`/messages/${none}/payload`)).status, 404)
    for (const stage of ['packed', '']) {
      const { error } = await client.get(`/messages/${full}/payload?stage=${stage}`)
      t.same(Object.keys(error?.details ?? {}), ['stage'])
    }
  })
})
