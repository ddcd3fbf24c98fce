import t from 'tap'
import type { ComposedMessage } from '../../../../actors/as2/protocol/compose.ts'
import { formatEnvelopedData } from '../../../../actors/as2/protocol/cms/enveloped-data.ts'
import { PROCESSED } from '../../../../actors/as2/protocol/disposition.ts'
import { MAKING } from '../../../../actors/as2/protocol/making.ts'
import { formatMultipartSigned } from '../../../../actors/as2/protocol/multipart-signed.ts'
import { composeReceipt, readReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { formatEntity } from '../../../../runtime/mime/entity.ts'
import { startAsyncPartner } from '../../../support/async-partner.ts'
import { until } from '../../../support/processes.ts'
import { startOwing, stateOf } from './async-owed.ts'

t.setTimeout(300_000)

const owing = await startOwing(t)
const { waybill, pool, loop, acme, change, setReceiver, compose, composeFor, send, recordOf, untilSo } = owing
const keys = { own: loop.acme.keys, signer: loop.globex.keys }
const elsewhere = await startAsyncPartner(t, keys)

/** On loopback, and not the host of the profile's endpoint. */
const REFUSED_URLS = [
  elsewhere.url,
  'http://169.254.169.254/latest/meta-data',
  'http://10.0.0.1/',
  'http://[::1]:10080/',
  'http://localhost:10080/',
  'https://user:secret@receipts.example/',
  'file:///etc/passwd',
  'gopher://receipts.example/',
]

/** The same message, but for where it wants its receipt. */
function at(message: ComposedMessage, url: string): ComposedMessage {
  const headers = message.headers.map(
    ([name, value]) => [name, name === 'Receipt-Delivery-Option' ? url : value] as const,
  )
  return { ...message, headers }
}

/** One that no composer of ours would make. */
const wanting = async (url: string): Promise<ComposedMessage> => at(await compose(), url)

void t.test(
  'a message that wants its receipt where none may go is refused, and told so at once',
  async (t) => {
    for (const url of REFUSED_URLS) {
      const message = await wanting(url)
      const { status, headers, body } = await send(message)
      t.equal(status, 200, url)
      const said = await readReceipt({ headers, body, signers: [loop.globex.keys.certificate] })
      t.match(said, { signed: true, disposition: { modifier: { text: 'unexpected-processing-error' } } })
      const record = await recordOf(message)
      t.match(record, {
        status: 'Refused',
        deliveries: [],
        protocols: { as2: { receipt: { mode: 'Sync', state: 'sent' } } },
      })
      t.match(record.history[0]?.text, /^The receipt is wanted at /)
      t.notMatch(record.history[0]?.text, /secret/)
    }
    t.same(elsewhere.receipts, [])
  },
)

void t.test('to whom nobody knows nothing is sent but an answer', async (t) => {
  const message = await compose({ as2From: 'STRANGER' })
  const { status, body } = await send(message)
  t.equal(status, 200, 'there is a receipt to read')
  t.match(body.toString(), /unknown-trading-relationship/)
  t.equal((await recordOf(message)).status, 'Refused')
  t.same(acme.receipts, [])
})

void t.test(
  "a receipt that was encrypted is nobody's business document: it is kept as refused",
  async (t) => {
    const report = await composeReceipt({
      as2From: 'ACME-AS2',
      as2To: 'GLOBEX AS2',
      messageId: null,
      date: new Date(),
      originalMessageId: '<any@globex>',
      disposition: PROCESSED,
      mic: null,
      text: 'A receipt.',
      signature: null,
      product: 'Partner/1.0',
    })
    const { certificate } = loop.globex.keys
    // One that no composer of ours would make, either.
    const signed = await formatMultipartSigned(formatEntity(report.headers, report.body), {
      signing: { algorithm: 'SHA256', scheme: 'PKCS1', ...loop.acme.keys },
      signingTime: new Date(),
    })
    const { bytes } = formatEnvelopedData(
      formatEntity(signed.headers, signed.body),
      { algorithm: 'AES256-CBC', keyTransport: 'PKCS1', certificate },
      MAKING,
    )
    const message = { ...(await compose({ receipt: null })), body: bytes }
    t.equal((await send(message)).status, 400)
    const record = await recordOf(message)
    t.match(record, { status: 'Refused', deliveries: [] })
    t.match(record.history[0]?.text, /^It is a receipt/)
  },
)

void t.test('a repeat that wants the receipt where none may go does not get it', async (t) => {
  const message = await compose()
  await send(message)
  await untilSo(message, (record) => stateOf(record) === 'sent')
  t.equal((await send(at(message, elsewhere.url))).status, 400)
  const { rows } = await pool.query('select from receipt_dispatch')
  t.equal(rows.length, 0)
  t.same(elsewhere.receipts, [])
})

void t.test("credentials of the profile go to the partner's own host, and to no other", async (t) => {
  await change({
    http_basic_username: 'edi',
    http_basic_password: 'a secret',
    http_headers: [{ name: 'X-Tenant', value: 'also secret' }],
  })
  const own = await compose()
  await send(own)
  await untilSo(own, (record) => stateOf(record) === 'sent')
  const names = (receipt: { headers: [string, string][] } | undefined): string[] =>
    (receipt?.headers ?? []).map(([name]) => name.toLowerCase())
  t.ok(['authorization', 'x-tenant'].every((name) => names(acme.receipts.at(-1)).includes(name)))

  await setReceiver({ receipt_hosts: [`${elsewhere.host}/32`] })
  const message = await composeFor(elsewhere.url)
  t.equal((await send(message)).status, 204)
  await untilSo(message, (record) => stateOf(record) === 'sent')
  t.equal(elsewhere.receipts.length, 1)
  t.notOk(['authorization', 'x-tenant'].some((name) => names(elsewhere.receipts[0]).includes(name)))
})

void t.test('rubbish under a known Message-ID has the stored receipt sent nowhere', async (t) => {
  await setReceiver({ receipt_hosts: ['127.0.0.0/8'] })
  const message = await compose()
  await send(message)
  await untilSo(message, (record) => stateOf(record) === 'sent')
  const before = elsewhere.receipts.length
  const rubbish = { ...at(message, elsewhere.url), body: Buffer.from('rubbish') }
  t.equal((await send(rubbish)).status, 204, 'it is refused, as any message of that sender')
  await until(async () => elsewhere.receipts.length > before)
  const [{ headers, body } = { headers: [], body: Buffer.alloc(0) }] = elsewhere.receipts.slice(before)
  t.match(await readReceipt({ headers, body, signers: [loop.globex.keys.certificate] }), {
    disposition: { modifier: { kind: 'error' } },
  })
})

void t.test(
  'the same bytes of a sender who counts no more have it sent only where it went first',
  async (t) => {
    await setReceiver({ receipt_hosts: ['127.0.0.0/8'] })
    const message = await compose()
    await send(message)
    await untilSo(message, (record) => stateOf(record) === 'sent')
    await change({ partner_signing_certificate_id: loop.globex.certificate })
    t.teardown(() => change({ partner_signing_certificate_id: null }))
    t.equal((await send(at(message, elsewhere.url))).status, 400)
    t.equal((await send(message)).status, 204)
  },
)

void t.test(
  'dead places that repeats name do not keep a receipt from where it was wanted first',
  async (t) => {
    await setReceiver({ receipt_hosts: ['127.0.0.0/8'] })
    const message = await compose()
    await send(message)
    await untilSo(message, (record) => stateOf(record) === 'sent')
    elsewhere.onReceipt = async (_, response) => void response.writeHead(503).end()
    const statuses: number[] = []
    for (let place = 0; place < 4; place += 1) {
      statuses.push((await send(at(message, `${elsewhere.url}?dead=${place}`))).status)
    }
    t.same(statuses, [204, 204, 204, 400])
    const before = acme.receipts.length
    t.equal((await send(message)).status, 204)
    await until(async () => acme.receipts.length > before)
    elsewhere.onReceipt = async (_, response) => void response.end()
    await pool.query('delete from receipt_dispatch')
  },
)

void t.test('repeats cannot have a receipt sent to any number of places', async (t) => {
  await setReceiver({ receipt_hosts: ['127.0.0.0/8'] })
  acme.onReceipt = async (_, response) => void response.writeHead(503).end()
  elsewhere.onReceipt = acme.onReceipt
  const message = await compose()
  await send(message)
  const statuses: number[] = []
  for (let place = 0; place < 5; place += 1) {
    statuses.push((await send(at(message, `${elsewhere.url}?place=${place}`))).status)
  }
  t.same(statuses, [204, 204, 400, 400, 400])
  acme.onReceipt = async (_, response) => void response.end()
  elsewhere.onReceipt = acme.onReceipt
  await pool.query('update receipt_dispatch set next_attempt_at = exchange_time() where lease_owner is null')
  await until(async () => {
    const { rows } = await pool.query<{ due: boolean }>(
      'select lease_owner is null as due from receipt_dispatch',
    )
    if (rows.some(({ due }) => due))
      await pool.query(
        'update receipt_dispatch set next_attempt_at = exchange_time() where lease_owner is null',
      )
    return rows.length === 0
  })
  t.equal(stateOf(await recordOf(message)), 'sent')
  t.ok(waybill.running)
})
