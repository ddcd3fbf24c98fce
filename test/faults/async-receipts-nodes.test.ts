import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { findMessage, listMessages } from '../../storage/exchange/messages.ts'
import { composeMessage } from '../../actors/as2/protocol/compose.ts'
import { passTime } from '../storage/exchange/fixture.ts'
import { setUpLoop } from '../support/as2-loop.ts'
import { post, receiptOf, startAsyncPartner, wantedAt } from '../support/async-partner.ts'
import { createTestDatabase } from '../support/database.ts'
import { dropFile } from '../support/file-set.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

t.setTimeout(600_000)

const { url, pool } = await createTestDatabase(t)
const directory = await temporaryDirectory(t)
await pool.query('update settings set storage_local_directory = $1', [join(directory, 'payloads')])
const RECEIVER = '/services/as2-receiver/receiver'
const SENDER = '/services/as2-sender/sender'

async function startNode(name: string): Promise<Waybill> {
  const waybill = await Waybill.start({
    directory: join(directory, name),
    env: { DATABASE_URL: url, SECRET_KEY: 'the same on every node', DELIVERY_LEASE_SECONDS: '2' },
  })
  t.teardown(() => waybill.kill())
  return waybill
}

interface Listed {
  readonly services: readonly { readonly type: string; readonly name: string; readonly status: string }[]
}

async function statusAt(node: Waybill, path: string): Promise<string> {
  const [, , type, name] = path.split('/')
  const { services } = await node.request<Listed>('GET', '/services')
  return services.find((each) => each.type === type && each.name === name)?.status ?? ''
}

/** What was saved before a node started, it starts by itself. */
async function stopAt(node: Waybill, path: string): Promise<void> {
  await until(async () => (await statusAt(node, path)) === 'running')
  await node.request('POST', `${path}/stop`)
}

/** Until it runs. It may be starting, or have been tried already while another node had the port. */
async function startAt(node: Waybill, path: string): Promise<void> {
  await until(async () => {
    const status = await statusAt(node, path)
    if (status === 'stopped' || status === 'error')
      await node.request('POST', `${path}/start`).catch(() => undefined)
    return status === 'running'
  })
}

const one = await startNode('one')
const loop = await setUpLoop(one, { directory })
const globex = await startAsyncPartner(t, { own: loop.globex.keys, signer: loop.acme.keys })
const acme = await startAsyncPartner(t, { own: loop.acme.keys, signer: loop.globex.keys })
const partner = (id: number, profile: object) => one.request('PUT', `/as2/remote-profiles/${id}`, profile)
await partner(loop.globex.partner, { endpoint: globex.url, receipt_mode: 'Async' })
await partner(loop.acme.partner, { endpoint: acme.url })
const two = await startNode('two')
await startAt(two, RECEIVER)
await stopAt(two, SENDER)

t.test(
  'a receipt counts that comes to another node, after the one that sent the message has died',
  async (t) => {
    await one.request('POST', `${SENDER}/start`)
    await one.request('POST', '/services/file-poller/poller/start')
    const held: ServerResponse[] = []
    globex.onMessage = async (_, response) => void held.push(response)
    await dropFile(loop.outbox, 'survivor.edi', 'the payload')
    await until(() => held.length === 1)
    await one.kill()
    const [arrived] = globex.messages
    if (arrived === undefined) throw new Error('It did not arrive')
    const id = (arrived.messageId ?? '').slice(1, 37)
    t.equal((await post(wantedAt(arrived), await receiptOf(arrived, loop.globex.keys))).status, 200)
    await startAt(two, SENDER)
    await until(async () => (await findMessage(pool, id))?.status === 'Delivered')
    t.match(await findMessage(pool, id), {
      deliveries: [{ state: 'delivered', attempts: 2 }],
      protocols: { as2: { receipt: { state: 'received' } } },
    })
    t.equal(globex.messages.length, 1, 'nothing was sent again')
  },
)

t.test(
  'a receipt that we owe is sent by another node when the one that was sending it has died',
  async (t) => {
    const held: ServerResponse[] = []
    acme.onReceipt = async (_, response) => void held.push(response)
    const message = await composeMessage({
      as2From: 'ACME-AS2',
      as2To: 'GLOBEX AS2',
      messageId: '<owed@acme>',
      subject: null,
      date: new Date(),
      fileName: 'owed.edi',
      contentType: 'application/edifact',
      content: Buffer.from('a payload'),
      compression: 'None',
      signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...loop.acme.keys },
      encryption: {
        algorithm: 'AES256-CBC',
        keyTransport: 'PKCS1',
        certificate: loop.globex.keys.certificate,
      },
      receipt: { signed: true, asyncUrl: acme.url },
      product: 'Partner/1.0',
    })
    t.equal((await post(loop.receiverUrl, message)).status, 204)
    await until(() => held.length === 1)
    const three = await startNode('three')
    await two.kill()
    await startAt(three, RECEIVER)
    acme.onReceipt = async (_, response) => void response.end()
    const stateOf = async (): Promise<unknown> => {
      const { messages } = await listMessages(pool, {}, { limit: 100, offset: 0 })
      const received = messages.find(({ direction }) => direction === 'inbound')
      return (received?.protocols['as2'] as { receipt: { state: string } } | undefined)?.receipt.state
    }
    t.equal(await stateOf(), 'pending')
    t.equal(acme.receipts.length, 1, 'it is not taken away from who may still be at it')
    await passTime(pool, 200)
    await until(async () => (await stateOf()) === 'sent')
    const [first, second, ...others] = acme.receipts
    t.same(others, [])
    t.ok(first !== undefined && second?.body.equals(first.body), 'byte for byte')
  },
)
