import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { accept } from '../../storage/sql/accept.ts'
import { claim } from '../../storage/sql/claim.ts'
import { stallWaiting } from '../../storage/sql/maintain.ts'
import { settle, type Outcome } from '../../storage/sql/settle.ts'
import { startApi, type TestApi, type TestApiOptions } from '../support/api.ts'
import { exchangeRecords } from '../support/exchange-records.ts'
import { multipart, MULTIPART_HEADERS } from '../support/multipart.ts'
import { claimFor, newMessage, settlementOf } from '../storage/exchange/fixture.ts'

interface Shown {
  readonly status: string
  readonly stage: string
  readonly updated_at: string
  readonly settled_at: string | null
  readonly deliveries: readonly {
    readonly id: number
    readonly target: string
    readonly state: string
    readonly attempts: number
    readonly last_error: string | null
    readonly next_attempt_at: string | null
    readonly finished_at: string | null
  }[]
  readonly history: readonly {
    readonly kind: string
    readonly text?: string
    readonly target?: string
    readonly delivery_id?: number
    readonly old_state?: string
    readonly new_state?: string
    readonly old_status?: string
    readonly new_status?: string
  }[]
}

async function started(t: Test, options?: TestApiOptions): Promise<TestApi> {
  const api = await startApi(t, options)
  await exchangeRecords(t, api)
  return api
}

async function routed(api: TestApi, ...targets: readonly string[]): Promise<void> {
  for (const target of targets)
    await api.client.create('/routes', { source_plugin: 'poller', target_plugin: target })
}

async function accepted(
  { database }: TestApi,
  changes: Parameters<typeof newMessage>[0] = {},
): Promise<string> {
  const message = newMessage({ source: 'poller', ...changes })
  await accept(database.pool, [message])
  return message.id
}

async function shown({ client }: TestApi, id: string): Promise<Shown> {
  return (await client.get(`/messages/${id}`)).data as unknown as Shown
}

/** What the message's deliveries have been through since, as words. */
function since(before: Shown, after: Shown): string[] {
  return after.history
    .slice(before.history.length)
    .map(({ kind, target, old_state, new_state, old_status, new_status, text }) => {
      if (kind === 'status_changed') return `${old_status} > ${new_status}`
      if (kind === 'delivery_changed') return `${target}: ${old_state ?? ''} > ${new_state}`
      return `${kind}${target === undefined ? '' : ` ${target}`}: ${text}`
    })
}

/** Brings the delivery of a target to a state, as the target and the clock would; it has been so for a while. */
async function bring(api: TestApi, target: string, state: string): Promise<void> {
  await move(api, target, state)
  await api.database.pool.query(`update message set updated_at = updated_at - interval '1 minute'`)
}

async function move({ database }: TestApi, target: string, state: string): Promise<void> {
  const { pool } = database
  if (state === 'queued') return
  if (state === 'stalled') {
    await pool.query(
      `update delivery set waiting_since = now() - interval '1 minute' where target = $1 and state = 'queued'`,
      [target],
    )
    await pool.query(`delete from target_work`)
    await stallWaiting(pool, 1)
    return
  }
  const [claimed] = await claim(pool, claimFor(target))
  if (claimed === undefined) throw new Error('Nothing was claimed')
  if (state === 'delivering') return
  const outcomes: Record<string, Outcome> = {
    delivered: { state: 'delivered' },
    failed: { state: 'failed', error: 'refused' },
    retrying: { state: 'retrying', error: 'no answer', delaySeconds: 600 },
    awaiting_ack: { state: 'awaiting_ack', deadlineSeconds: 86_400 },
  }
  const outcome = outcomes[state]
  if (outcome === undefined) throw new Error(state)
  await settle(pool, [settlementOf(claimed, outcome)])
}

const again = ({ client }: TestApi, id: string) => client.post(`/messages/${id}/redispatch`)
const deliverAgain = ({ client }: TestApi, id: string, delivery: number | string) =>
  client.post(`/messages/${id}/deliveries/${delivery}/redeliver`)

const REDELIVERED = ['failed', 'stalled', 'retrying', 'delivered']
const UNDER_WAY = ['queued', 'delivering', 'awaiting_ack']

t.test('what an operator asks for once more', async (t) => {
  const api = await started(t)
  const fresh = async (): Promise<void> => {
    for (const table of ['message', 'route']) await api.database.pool.query(`delete from ${table}`)
  }

  for (const state of REDELIVERED) {
    t.test(`a delivery that is ${state} is redelivered: queued with no attempts and no error`, async (t) => {
      await fresh()
      await routed(api, 'outer')
      const id = await accepted(api)
      await bring(api, 'outer', state)
      const before = await shown(api, id)
      const [delivery] = before.deliveries
      t.equal(delivery?.state, state)
      const answer = await deliverAgain(api, id, delivery?.id ?? 0)
      t.equal(answer.status, 200)
      const after = answer.data as unknown as Shown
      t.match(after, {
        status: 'InProgress',
        stage: 'dispatched',
        settled_at: null,
        deliveries: [
          {
            id: delivery?.id,
            state: 'queued',
            attempts: 0,
            last_error: null,
            next_attempt_at: null,
            finished_at: null,
          },
        ],
      })
      t.ok(after.updated_at > before.updated_at)
      t.same(since(before, after), [
        'redeliver_requested outer: Requested by developer',
        `outer: ${state} > queued`,
        `${before.status} > InProgress`,
      ])
      t.same(await shown(api, id), after)
      const claimed = await claim(api.database.pool, claimFor('outer'))
      t.match(claimed, [{ id: delivery?.id, attempts: 1 }])
      t.same((await shown(api, id)).history.at(-1)?.new_state, 'delivering')
    })
  }

  for (const state of UNDER_WAY) {
    t.test(`a delivery that is ${state} is not redelivered: 409 NOT_REDELIVERABLE`, async (t) => {
      await fresh()
      await routed(api, 'outer')
      const id = await accepted(api)
      await bring(api, 'outer', state)
      const before = await shown(api, id)
      const { status, error } = await deliverAgain(api, id, before.deliveries[0]?.id ?? 0)
      t.equal(status, 409)
      t.equal(error?.code, 'NOT_REDELIVERABLE')
      t.same(error?.details, { state, allowed: ['failed', 'stalled', 'retrying', 'delivered'] })
      t.same(await shown(api, id), before)
    })
  }

  t.test(
    'the redelivery of one of two deliveries leaves the other alone, and the status follows both',
    async (t) => {
      await fresh()
      await routed(api, 'inner', 'outer')
      const id = await accepted(api)
      await bring(api, 'inner', 'failed')
      await bring(api, 'outer', 'delivered')
      const before = await shown(api, id)
      t.match(before, { status: 'Error', stage: 'settled' })
      const [inner, outer] = before.deliveries
      const answer = await deliverAgain(api, id, inner?.id ?? 0)
      t.match(answer.data, {
        status: 'InProgress',
        stage: 'dispatched',
        deliveries: [{ state: 'queued' }, outer],
      })
      await bring(api, 'inner', 'delivered')
      t.match(await shown(api, id), { status: 'Delivered', stage: 'settled', settled_at: String })
    },
  )

  t.test('a redelivery of an unknown message or delivery is 404, a malformed id 400', async (t) => {
    await fresh()
    await routed(api, 'outer')
    const [id, other] = [await accepted(api), await accepted(api)]
    const [delivery] = (await shown(api, other)).deliveries
    const ofOther = await deliverAgain(api, id, delivery?.id ?? 0)
    t.equal(ofOther.status, 404, 'a delivery of another message')
    t.match(ofOther.error, { code: 'NOT_FOUND', message: 'Delivery not found' })
    t.equal((await deliverAgain(api, id, 999_999)).status, 404)
    t.equal((await deliverAgain(api, id, '9'.repeat(30))).status, 404)
    const unknown = await deliverAgain(api, randomUUID(), delivery?.id ?? 0)
    t.match(unknown.error, { code: 'NOT_FOUND', message: 'Message not found' })
    for (const bad of ['x', '-1', '1.5', '0x1', '%20']) {
      const answer = await deliverAgain(api, id, bad)
      t.equal(answer.status, 400, bad)
      t.same(Object.keys(answer.error?.details ?? {}), ['delivery_id'])
    }
    t.same(Object.keys((await deliverAgain(api, 'x', 1)).error?.details ?? {}), ['id'])
  })

  t.test(
    'a redispatch announces queued and stalled deliveries again and leaves all others alone',
    async (t) => {
      await fresh()
      await routed(api, 'inner', 'outer')
      for (const state of ['stalled', 'queued']) {
        const id = await accepted(api)
        await bring(api, 'inner', 'retrying')
        await bring(api, 'outer', state)
        const before = await shown(api, id)
        const answer = await again(api, id)
        t.equal(answer.status, 200)
        const after = answer.data as unknown as Shown
        t.match(after, {
          status: 'Retrying',
          deliveries: [
            before.deliveries[0],
            { target: 'outer', state: 'queued', last_error: null, finished_at: null },
          ],
        })
        t.same(
          since(before, after).slice(0, 1),
          ['redispatch_requested: Requested by developer'],
          'the line names who asked',
        )
        t.same(since(before, after).slice(1), state === 'stalled' ? ['outer: stalled > queued'] : [])
        t.ok(after.updated_at > before.updated_at)
        await api.database.pool.query('delete from message')
      }
    },
  )

  for (const state of ['delivered', 'failed', 'retrying', 'delivering', 'awaiting_ack']) {
    t.test(
      `a redispatch of a message whose delivery is ${state} changes nothing and writes nothing`,
      async (t) => {
        await fresh()
        await routed(api, 'outer')
        const id = await accepted(api)
        await bring(api, 'outer', state)
        const before = await shown(api, id)
        const answer = await again(api, id)
        t.equal(answer.status, 200)
        t.same(answer.data, before)
        t.same(await shown(api, id), before)
      },
    )
  }

  t.test('a redispatch makes deliveries for the routes as they stand now', async (t) => {
    await fresh()
    const id = await accepted(api)
    const before = await shown(api, id)
    t.match(before, { status: 'NotRouted', stage: 'settled', deliveries: [] })
    t.same((await again(api, id)).data, before, 'without a route nothing changes')
    await routed(api, 'outer')
    const answer = await again(api, id)
    const first = answer.data as unknown as Shown
    t.match(first, {
      status: 'InProgress',
      stage: 'dispatched',
      settled_at: null,
      deliveries: [{ target: 'outer', state: 'queued', attempts: 0 }],
    })
    t.same(since(before, first), [
      'redispatch_requested: Requested by developer',
      'outer:  > queued',
      'NotRouted > InProgress',
    ])
    await bring(api, 'outer', 'delivered')
    await routed(api, 'inner')
    const second = (await again(api, id)).data as unknown as Shown
    t.match(second, {
      status: 'InProgress',
      deliveries: [
        { target: 'outer', state: 'delivered' },
        { target: 'inner', state: 'queued' },
      ],
    })
  })

  t.test('a message that its source still owns is not redispatched: 409 NOT_REDISPATCHABLE', async (t) => {
    await fresh()
    await routed(api, 'outer')
    const id = await accepted(api, { dispatch: false, sourceReference: '{}' })
    const before = await shown(api, id)
    const { status, error } = await again(api, id)
    t.equal(status, 409)
    t.equal(error?.code, 'NOT_REDISPATCHABLE')
    t.same(error?.details, { stage: 'accepted', allowed: ['dispatched', 'settled'] })
    t.same(await shown(api, id), before)
    t.equal((await again(api, randomUUID())).error?.code, 'NOT_FOUND')
    t.same(Object.keys((await again(api, 'x')).error?.details ?? {}), ['id'])
  })

  t.test('a refused message matches no route, also when it is redispatched', async (t) => {
    await fresh()
    await routed(api, 'outer')
    const id = await accepted(api, { refusal: 'The signature does not verify' })
    const before = await shown(api, id)
    const answer = await again(api, id)
    t.equal(answer.status, 200)
    t.same(answer.data, before)
  })

  t.test('a message that was sent by hand gets no new deliveries, its own are announced again', async (t) => {
    await fresh()
    const raw = multipart([
      { name: 'from', content: 'acme' },
      { name: 'to', content: 'globex' },
      { name: 'target', content: 'outer' },
      { name: 'file', fileName: 'a.edi', content: 'x' },
    ])
    const sent = await api.client.ask('POST', '/messages', { raw, headers: MULTIPART_HEADERS })
    const id = String(sent.data['id'])
    await routed(api, 'inner', 'outer')
    // An instance may be called as the source of such messages is.
    await api.client.create('/plugins/configs?type=as2-receiver', { name: 'api' })
    await api.client.create('/routes', { source_plugin: 'api', target_plugin: 'inner' })
    await bring(api, 'outer', 'stalled')
    const answer = await again(api, id)
    t.match(answer.data, { status: 'InProgress', deliveries: [{ target: 'outer', state: 'queued' }] })
    t.equal((answer.data['deliveries'] as unknown[]).length, 1)
    await bring(api, 'outer', 'delivered')
    const settled = await shown(api, id)
    t.same((await again(api, id)).data, settled)
  })

  t.test('a request for a repetition takes no body, or an empty object as JSON', async (t) => {
    await fresh()
    await routed(api, 'outer')
    const id = await accepted(api)
    const path = `/messages/${id}/redispatch`
    t.equal((await api.client.ask('POST', path)).status, 415)
    const headers = { 'content-type': 'application/json' }
    t.equal((await api.client.ask('POST', path, { headers })).status, 200)
    t.same(Object.keys((await api.client.post(path, { all: true })).error?.details ?? {}), ['all'])
  })
})

t.test('the log line of an operator action names the user', async (t) => {
  const lines: Record<string, unknown>[] = []
  const sink = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      lines.push(JSON.parse(chunk.toString()) as Record<string, unknown>)
      done()
    },
  })
  const api = await started(t, { log: pino({ level: 'info' }, sink) })
  await routed(api, 'outer')
  const id = await accepted(api)
  const [delivery] = (await shown(api, id)).deliveries
  await bring(api, 'outer', 'failed')
  await again(api, id)
  await deliverAgain(api, id, delivery?.id ?? 0)
  sink.end()
  await once(sink, 'finish')
  const actions = lines.filter(({ message, caller }) => message === id && caller === 'developer')
  t.match(
    actions.map(({ msg }) => msg),
    ['Redispatch requested', 'Redelivery requested'],
  )
})
