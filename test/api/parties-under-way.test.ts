import t, { type Test } from 'tap'
import { accept, type NewMessage } from '../../storage/sql/accept.ts'
import { claim } from '../../storage/sql/claim.ts'
import { settle, type Outcome } from '../../storage/sql/settle.ts'
import { claimFor, newMessage, routesTo, settlementOf } from '../storage/exchange/fixture.ts'
import { startApi, type TestApi } from '../support/api.ts'

// Messages name their parties by the text: who is renamed would leave what is on its way to somebody else.
t.setTimeout(300_000)

interface Site extends TestApi {
  readonly ids: Readonly<Record<string, number>>
}

/** Acme and Globex, each an organization and a partner, and a route that names nobody. */
async function site(t: Test): Promise<Site> {
  const api = await startApi(t)
  await routesTo(api.database.pool, 'target')
  const ids: Record<string, number> = {}
  for (const path of ['/organizations', '/partners']) {
    for (const name of ['acme', 'globex']) {
      const created = await api.client.create(path, { name })
      ids[`${path}/${name}`] = created['id'] as number
    }
  }
  return { ...api, ids }
}

const idOf = ({ ids }: Site, party: string): number => ids[party] ?? 0

/** Renames a party and, where that is allowed, back again. Answers the refusal. */
async function renaming(api: Site, party: string) {
  const [, resource, name] = party.split('/')
  const path = `/${resource}/${idOf(api, party)}`
  const answer = await api.client.put(path, { name: 'renamed' })
  if (answer.status === 200) {
    const back = await api.client.put(path, { name })
    if (back.status !== 200) throw new Error(`It cannot be renamed back: ${back.error?.message}`)
    return null
  }
  return { status: answer.status, ...answer.error }
}

/** Accepts a message of Acme to Globex, and ends its first attempt so; undefined: nobody has claimed it. */
async function underWay(
  { database: { pool } }: TestApi,
  changes: Partial<NewMessage> = {},
  outcome?: Outcome,
): Promise<string> {
  const message = newMessage(changes)
  await accept(pool, [message])
  if (outcome === undefined) return message.id
  const [claimed] = await claim(pool, claimFor('target'))
  if (claimed === undefined) throw new Error('Nothing was claimed')
  await settle(pool, [settlementOf(claimed, outcome)])
  return message.id
}

const forgetMessages = ({ database: { pool } }: TestApi) => pool.query('delete from message')

const AWAITING: Outcome = { state: 'awaiting_ack', deadlineSeconds: 86_400 }
const RETRYING: Outcome = { state: 'retrying', error: 'HTTP status 503', delaySeconds: 600 }

const CASES: readonly (readonly [status: string, changes: Partial<NewMessage>, outcome?: Outcome])[] = [
  ['Received', { dispatch: false }],
  ['InProgress', {}],
  ['Retrying', {}, RETRYING],
  ['AwaitingReceipt', {}, AWAITING],
]

t.test('while messages are on their way', async (t) => {
  const api = await site(t)
  const { client, database } = api

  for (const [status, changes, outcome] of CASES) {
    for (const isFolded of [false, true]) {
      const counted = isFolded ? ', counted long ago' : ''
      t.test(`${status}${counted}: neither who sends nor who receives is renamed`, async (t) => {
        await forgetMessages(api)
        const id = await underWay(api, changes, outcome)
        t.equal((await client.get(`/messages/${id}`)).data['status'], status)
        if (isFolded) await database.pool.query('select fold_message_changes(1000)')
        for (const [party, field, words] of [
          [
            '/organizations/acme',
            'from',
            'Organization acme cannot be renamed: 1 message of this organization',
          ],
          ['/partners/globex', 'to', 'Partner globex cannot be renamed: 1 message of this partner'],
        ] as const) {
          t.same(
            await renaming(api, party),
            {
              status: 409,
              code: 'CONFLICT',
              message: `${words} is on its way`,
              details: {
                users: [{ kind: 'message', name: id, fields: [field], link: `/messages/${id}` }],
                total: 1,
              },
            },
            party,
          )
        }
        t.equal(await renaming(api, '/partners/acme'), null, 'the partner of the name is somebody else')
        t.equal(await renaming(api, '/organizations/globex'), null)
      })
    }
  }

  t.test('one that comes in keeps the partner that it is from, and the organization it is to', async (t) => {
    await forgetMessages(api)
    await underWay(api, { direction: 'inbound' })
    t.match(await renaming(api, '/partners/acme'), {
      status: 409,
      details: { users: [{ fields: ['from'] }] },
    })
    t.match(await renaming(api, '/organizations/globex'), { details: { users: [{ fields: ['to'] }] } })
    t.equal(await renaming(api, '/organizations/acme'), null)
    t.equal(await renaming(api, '/partners/globex'), null)
  })

  t.test('how many there are is told, and the first of them', async (t) => {
    await forgetMessages(api)
    await accept(
      database.pool,
      Array.from({ length: 30 }, () => newMessage()),
    )
    const refused = await renaming(api, '/partners/globex')
    t.equal(
      refused?.message,
      'Partner globex cannot be renamed: 30 messages of this partner are on their way',
    )
    t.equal(refused?.details?.['total'], 30)
    t.equal((refused?.details?.['users'] as unknown[] | undefined)?.length, 25)
  })

  t.test('all but the name may change, and the record be deleted', async (t) => {
    await forgetMessages(api)
    await underWay(api)
    const path = `/partners/${idOf(api, '/partners/globex')}`
    t.equal((await client.put(path, { name: 'globex', display_name: 'Globex' })).status, 200)
    const { id } = await client.create('/organizations', { name: 'gone' })
    await accept(database.pool, [newMessage({ from: 'gone' })])
    t.equal((await client.delete(`/organizations/${String(id)}`)).status, 204)
  })

  t.test('what has arrived, failed, or is of others holds no name', async (t) => {
    await forgetMessages(api)
    await underWay(api, {}, { state: 'delivered' })
    await underWay(api, {}, { state: 'failed', error: 'no' })
    await underWay(api, { refusal: 'not signed' })
    await underWay(api, { from: 'initech', to: 'umbrella' })
    for (const party of Object.keys(api.ids)) t.equal(await renaming(api, party), null, party)
  })
})

t.test('while a receipt is owed for a message, its pair is not renamed', async (t) => {
  const api = await site(t)
  const order = { url: 'https://acme.example/receipts', lastsSeconds: 600 }
  const id = await underWay(api, { direction: 'inbound', receiptDispatch: order }, { state: 'delivered' })
  const users = [{ kind: 'message', name: id, fields: ['from'], link: `/messages/${id}` }]
  t.same(await renaming(api, '/partners/acme'), {
    status: 409,
    code: 'CONFLICT',
    message: 'Partner acme cannot be renamed: 1 receipt is owed to this partner',
    details: { users, total: 1 },
  })
  t.match(await renaming(api, '/organizations/globex'), {
    message: 'Organization globex cannot be renamed: 1 receipt is owed by this organization',
  })
  t.equal(await renaming(api, '/organizations/acme'), null)
  await underWay(api, { direction: 'inbound', receiptDispatch: order })
  t.match(await renaming(api, '/partners/acme'), {
    message:
      'Partner acme cannot be renamed: 1 message of this partner is on its way, and 2 receipts are owed to this partner',
    details: { total: 2 },
  })
  await api.database.pool.query('delete from receipt_dispatch')
  await api.database.pool.query('delete from message where status <> $1', ['Delivered'])
  t.equal(await renaming(api, '/partners/acme'), null)
})
