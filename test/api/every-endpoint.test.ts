import fc from 'fast-check'
import t from 'tap'
import { startApi } from '../support/api.ts'
import { objectOf } from '../support/arbitraries.ts'
import type { Answer, ApiClient } from '../support/client.ts'
import type { DescribedOperation, JsonSchema } from '../support/described-api.ts'
import { populate } from '../support/population.ts'
import { filled, requestOf } from '../support/random-requests.ts'

/**
 * Every operation of the served document, with random and hostile requests: an endpoint that is added joins by itself.
 * The seed is printed; `WAYBILL_PROPERTY_RUNS` (requests an operation) and `WAYBILL_PROPERTY_SEED` make other runs.
 */

const RUNS = Number(process.env['WAYBILL_PROPERTY_RUNS'] ?? 20)
const SEED = Number(process.env['WAYBILL_PROPERTY_SEED'] ?? 20_260_302)
const JSON_TYPE = 'application/json'
/** On a busy machine fewer requests are made rather than that the test takes minutes. */
const SETTINGS = {
  numRuns: RUNS,
  seed: SEED,
  endOnFailure: true,
  interruptAfterTimeLimit: RUNS * 250,
  markInterruptAsFailure: false,
} as const

/** Failures of the server that are no defect: what they tell is outside of it. */
const TOLD_FAILURES = new Set(['START_FAILED', 'SENDER_NOT_RUNNING', 'TOO_BUSY'])

/** Never ends by itself. */
const isStream = ({ operation }: DescribedOperation): boolean =>
  'content' in (operation.responses['200'] ?? {}) &&
  JSON.stringify(operation.responses['200']).includes('event-stream')

function check({ status, error, text }: Answer, what: string): void {
  if (status < 500 || TOLD_FAILURES.has(error?.code ?? '')) return
  throw new Error(`${what} is answered with ${status}: ${text}`)
}

t.setTimeout(600_000)

t.test('whatever is asked, no endpoint fails, hangs or answers otherwise than described', async (t) => {
  t.comment(`seed ${SEED}, ${RUNS} requests an operation`)
  const api = await startApi(t)
  const directory = t.testdir()
  const hints = await populate(api, directory)
  // What deletes comes last, so that there is something to meet.
  const operations = api.client
    .operations()
    .filter((each) => !isStream(each))
    .toSorted((one, other) => Number(one.method === 'DELETE') - Number(other.method === 'DELETE'))
  t.ok(operations.length > 30)
  for (const described of operations) {
    const { method, path } = described
    const statuses = new Map<number, number>()
    const property = fc.asyncProperty(requestOf(described, hints), async (request) => {
      if (path === '/settings/storage/test') await backToLocal(api.client, directory)
      const answer = await api.client.ask(method, request.path, {
        ...request.asking,
        ...(method === 'GET' ? { raw: undefined as never } : {}),
      })
      check(answer, `${method} ${request.path}`)
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
    })
    await t.resolves(fc.assert(property, SETTINGS), `${method} ${path}`)
    const told = [...statuses].map(([status, times]) => `${times} × ${status}`).join(', ')
    t.ok(statuses.size > 0, `${method} ${path}: ${told}`)
  }
  t.equal((await api.client.get('/health')).status, 200)
})

async function backToLocal(client: ApiClient, directory: string): Promise<void> {
  const body = { storage_backend: 'local', storage_local_directory: `${directory}/payloads` }
  const answer = await client.put('/settings', body)
  if (answer.status !== 200) throw new Error(`The settings are refused: ${answer.text}`)
}

/** What a record that is to be created needs, which no random choice would find. */
async function needed(client: ApiClient, path: string, at: number): Promise<Record<string, unknown>> {
  if (path === '/as2/local-profiles') {
    return { local_organization_id: (await client.create('/organizations', { name: `owner-${at}` }))['id'] }
  }
  if (path === '/as2/remote-profiles') {
    return { business_partner_id: (await client.create('/partners', { name: `owner-${at}` }))['id'] }
  }
  return {}
}

t.test('each record that is accepted can be read, put back unchanged and deleted', async (t) => {
  const api = await startApi(t)
  const { client } = api
  const hints = await populate(api, t.testdir())
  const all = client.operations()
  const creations = all.filter(({ method, path, upload, operation }) => {
    const single = all.some((other) => other.method === 'PUT' && other.path.startsWith(`${path}/{`))
    return method === 'POST' && single && !upload && '201' in operation.responses
  })
  t.ok(creations.length >= 6)
  const accepted = new Map<string, number>()
  let at = 0
  for (const { path, operation } of creations) {
    const schema = operation.requestBody?.content[JSON_TYPE]?.schema ?? {}
    const single = all.find((each) => each.method === 'PUT' && each.path.startsWith(`${path}/{`))?.path ?? ''
    const choices = typeof schema.$ref === 'string' ? hints.resolve(schema.$ref).anyOf : undefined
    for (const choice of choices ?? [schema]) {
      const type = typeOf(choice)
      const body = objectOf(typeof choice.$ref === 'string' ? hints.resolve(choice.$ref) : choice, hints)
      const place = choices === undefined ? path : `${path}?type=${type}`
      const property = fc.asyncProperty(body, async (random) => {
        at += 1
        const asked = {
          ...random,
          ...('name' in random ? { name: `made-${at}` } : {}),
          ...(await needed(client, path, at)),
        }
        const made = await client.post(place, asked)
        check(made, place)
        if (made.status !== 201) return
        accepted.set(place, (accepted.get(place) ?? 0) + 1)
        await roundTrip(client, single, made.data)
      })
      await t.resolves(fc.assert(property, SETTINGS), place)
      t.ok((accepted.get(place) ?? 0) > 0, `${place}: ${accepted.get(place) ?? 0} of ${RUNS} were accepted`)
    }
  }
})

/** `Http…Configuration` is of the type that its name says, with hyphens. */
function typeOf({ $ref = '' }: JsonSchema): string {
  const name = ($ref.split('/').at(-1) ?? '').replace(/Configuration(Creation|Change)$/, '')
  return name.replaceAll(/(?!^)[A-Z]/g, (letter) => `-${letter}`).toLowerCase()
}

async function roundTrip(client: ApiClient, template: string, record: Answer['data']): Promise<void> {
  const id = record['id'] ?? record['local_organization_id'] ?? record['business_partner_id']
  const names = ['type', 'name'].map((name): [string, string] => [name, String(record[name])])
  const path = filled(template, new Map([['id', String(id)], ...names]))
  const read = await client.get(path)
  same(read, 200, record, `GET ${path}`)
  const back = await client.put(path, read.data)
  same(back, 200, { ...record, updated_at: back.data['updated_at'] }, `PUT ${path}`)
  const again = await client.get(path)
  same(again, 200, back.data, `GET ${path} after PUT`)
  const { status, text } = await client.delete(path)
  if (status !== 204) throw new Error(`DELETE ${path} is answered with ${status}: ${text}`)
  same(await client.get(path), 404, {}, `GET ${path} after DELETE`)
}

function same(answer: Answer, status: number, data: Answer['data'], what: string): void {
  if (answer.status === status && JSON.stringify(sorted(answer.data)) === JSON.stringify(sorted(data))) return
  throw new Error(`${what}: expected ${status} ${JSON.stringify(data)}, got ${answer.status} ${answer.text}`)
}

function sorted(data: Answer['data']): unknown {
  return Object.fromEntries(Object.entries(data).toSorted(([one], [other]) => (one < other ? -1 : 1)))
}
