import t from 'tap'
import { ConnectionChecks } from '../support/connection-checks.ts'
import { httpServer } from '../support/partner-server.ts'

// On a busy machine many requests add up.
t.setTimeout(200_000)

const checks = await ConnectionChecks.begin(t)
const { client } = checks.api
const server = await httpServer(t, (_request, response) => response.end())
const near = `http://127.0.0.1:${server.port}/as2`
/** Of those that are for examples, and of nobody (RFC 5737). */
const far = 'http://192.0.2.7/as2'

async function receiver(change: object): Promise<void> {
  await checks.put(change, '/plugins/configs/as2-receiver/receiver')
}

t.test('asynchronous receipts need an enabled receiver', async (t) => {
  await checks.put({ receipt_mode: 'Async' })
  const problem = /receipt_mode is Async, and no enabled AS2 receiver could take the receipts in/
  await checks.fails(t, near, { step: 'certificates', problem })
  await client.create('/plugins/configs?type=as2-receiver', { name: 'receiver', enabled: false })
  await checks.fails(t, near, { step: 'certificates', problem })
  await receiver({ enabled: true, port: 0 })
  await checks.fails(t, near, { step: 'certificates', problem })
  await receiver({ port: 10_080 })
  t.equal((await checks.check(t, near)).ok, true)
})

t.test('a receiver that only this machine reaches takes no receipts of a partner elsewhere', async (t) => {
  const problem =
    /globex is elsewhere, and would send its receipts to http:\/\/localhost:10080\/as2, .* set public_url of the AS2 receiver/
  await checks.fails(t, far, { step: 'resolve', problem })
  await receiver({ host: '127.0.0.1' })
  await checks.fails(t, far, { step: 'resolve', problem: /receipts to http:\/\/127\.0\.0\.1:10080\/as2/ })
  t.equal((await checks.check(t, near)).ok, true, 'one on this machine reaches it')

  await client.create('/plugins/configs?type=as2-sender', { name: 'hasty', connect_timeout_seconds: 1 })
  await checks.start('hasty')
  await receiver({ public_url: 'https://as2.acme.example/as2' })
  t.equal((await checks.check(t, far, 'hasty')).results['resolve'], true)
  await receiver({ public_url: '' })
  await checks.put({ receipt_mode: 'Sync' })
  t.equal(
    (await checks.check(t, far, 'hasty')).results['resolve'],
    true,
    'with the answer it needs no way back',
  )
})

t.test('that messages of the partner cannot be verified is told, and hinders none of ours', async (t) => {
  const told = /messages of globex will be refused: require_signed is true, and there is no certificate/
  const { ok, details } = await checks.check(t, near)
  t.equal(ok, true)
  t.notMatch(details['certificates'], told)
  await checks.put({ encryption_algorithm: 'None', receipt_mode: 'None', partner_certificate_id: null })
  const without = await checks.check(t, near)
  t.equal(without.ok, true)
  t.match(without.details['certificates'], told)
  await checks.put({ require_signed: false })
  t.notMatch((await checks.check(t, near)).details['certificates'], told)
})
