import { join } from 'node:path'
import t, { type Test } from 'tap'
import { makeCertificate, type TestCertificate } from '../support/certificates.ts'
import { allMessages, type ExchangedMessage } from '../support/exchanged-messages.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { reservePort } from '../support/reserved-port.ts'
import { Waybill } from '../support/waybill.ts'

t.setTimeout(600_000)

interface Company {
  readonly name: string
  readonly keys: TestCertificate
  readonly place: { readonly host: string; readonly port: number }
}

const companyOf = async (name: string): Promise<Company> => ({
  name,
  keys: makeCertificate({ commonName: name }),
  place: await reservePort(),
})

/** A service of one company, which exchanges with one partner. */
async function startCompany(t: Test, own: Company, partner: Company): Promise<() => Promise<Waybill>> {
  const directory = join(await temporaryDirectory(t), own.name)
  let running: Waybill | null = null
  t.teardown(async () => running?.kill())
  const start = async (): Promise<Waybill> => (running = await Waybill.start({ directory }))
  const waybill = await start()
  const create = async (path: string, body: object): Promise<number> =>
    (await waybill.request<{ id: number }>('POST', path, body)).id
  const certificate = async ({ keys }: Company, withKey: boolean): Promise<number> => {
    const parts = {
      description: withKey ? 'ours' : 'theirs',
      certificate: new Blob([keys.certificatePem]),
      ...(withKey ? { private_key: new Blob([keys.privateKeyPem]) } : {}),
    }
    return (await waybill.upload<{ id: number }>('/certificates', parts)).id
  }
  const [ours, theirs] = [await certificate(own, true), await certificate(partner, false)]
  await create('/as2/local-profiles', {
    local_organization_id: await create('/organizations', { name: own.name }),
    as2id: own.name.toUpperCase(),
    signing_certificate_id: ours,
    decryption_certificate_id: ours,
  })
  await create('/as2/remote-profiles', {
    business_partner_id: await create('/partners', { name: partner.name }),
    as2id: partner.name.toUpperCase(),
    endpoint: `http://${partner.place.host}:${partner.place.port}/as2`,
    partner_certificate_id: theirs,
    receipt_mode: 'Async',
  })
  const configure = (type: string, body: object) =>
    waybill.request('POST', `/plugins/configs?type=${type}`, body)
  await configure('as2-receiver', { name: 'receiver', ...own.place })
  const retry = { retry_initial_seconds: 1, retry_max_seconds: 2, retry_max_attempts: 100 }
  await configure('as2-sender', { name: 'sender', ...retry })
  return async () => {
    await running?.kill()
    return start()
  }
}

const acme = await companyOf('acme')
const globex = await companyOf('globex')
const startAcme = await startCompany(t, acme, globex)
const startGlobex = await startCompany(t, globex, acme)

async function send(waybill: Waybill, from: Company, to: Company, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, async (_, index) => {
    const file = new Blob([`message ${index} from ${from.name}`])
    const parts = { from: from.name, to: to.name, target: 'sender', file }
    return (await waybill.upload<{ id: string }>('/messages', parts)).id
  })
  return Promise.all(ids)
}

/** Until each message is delivered here, and each receipt that we owe is sent. */
async function untilDone(
  waybill: Waybill,
  sent: readonly string[],
  received: number,
): Promise<ExchangedMessage[]> {
  let messages: ExchangedMessage[] = []
  await until(async () => {
    messages = await allMessages(waybill)
    const delivered = messages.filter(({ id, status }) => sent.includes(id) && status === 'Delivered')
    const owed = messages.filter(({ direction }) => direction === 'inbound')
    const isSent = owed.every(({ protocols }) => protocols.as2?.receipt?.state === 'sent')
    return delivered.length === sent.length && owed.length === received && isSent
  }, 300_000).catch((error: unknown) => {
    throw new Error(`${JSON.stringify(messages, null, 1)}\n${waybill.output.join('\n')}`, { cause: error })
  })
  return messages
}

const COUNT = 15

t.test('two services exchange in both directions, each killed once, and every receipt arrives', async (t) => {
  let atAcme = await startAcme()
  let atGlobex = await startGlobex()
  const sentByAcme = await send(atAcme, acme, globex, COUNT)
  const sentByGlobex = await send(atGlobex, globex, acme, COUNT)
  atAcme = await startAcme()
  sentByAcme.push(...(await send(atAcme, acme, globex, COUNT)))
  atGlobex = await startGlobex()
  sentByGlobex.push(...(await send(atGlobex, globex, acme, COUNT)))
  const all = [
    ...(await untilDone(atAcme, sentByAcme, sentByGlobex.length)),
    ...(await untilDone(atGlobex, sentByGlobex, sentByAcme.length)),
  ]
  t.equal(all.length, 8 * COUNT, 'each is one message on both sides')
  for (const { direction, protocols, history } of all) {
    const received = history.filter(({ kind }) => kind === 'mdn_received')
    t.match(protocols.as2?.receipt, { mode: 'Async' })
    if (direction === 'outbound') t.match(protocols.as2?.receipt, { state: 'received', mic_matches: true })
    t.ok(received.length >= 1)
  }
})
