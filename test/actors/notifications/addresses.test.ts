import t from 'tap'
import { SYSTEM_CALLER } from '../../../runtime/endpoint/endpoint.ts'
import { until } from '../../support/processes.ts'
import { startWebServer } from '../http/web-server.ts'
import { LIMIT_MS, startNotifying, told } from './notifying.ts'

/** A cooldown is that of the address that was told (specification, 3.6: `suppressed_cooldown`). */

t.setTimeout(900_000)

const notifying = await startNotifying(t)
const { client } = notifying.api
const web = await startWebServer(t)

const FAILS_AGAIN = { repeats: 'as2/globex' }
const at = (path: string) => ({ url: `${web.url}${path}`, cooldown_minutes: 15 })

async function save(name: string, changes: object): Promise<void> {
  const { data } = await client.get(`/plugins/configs/notification-webhook/${name}`)
  const answer = await client.put(`/plugins/configs/notification-webhook/${name}`, { ...data, ...changes })
  if (answer.status !== 200) throw new Error(answer.text)
}

async function startAnew(name: string): Promise<void> {
  await notifying.stop(name)
  await notifying.start(name)
}

t.test('another URL begins without the cooldown that was earned with the former', async (t) => {
  await notifying.configure(t, 'moved', at('/before'))
  await notifying.start('moved')
  await notifying.raise('a', FAILS_AGAIN)
  await notifying.untilOutcomes('moved', 'delivered')
  await save('moved', { url: `${web.url}/after` })
  await startAnew('moved')
  await notifying.raise('b', FAILS_AGAIN)
  await notifying.raise('c', FAILS_AGAIN)
  await notifying.untilOutcomes('moved', 'delivered', 'delivered', 'suppressed_cooldown')
  t.same(told(web.received('/before')), ['a'])
  t.same(told(web.received('/after')), ['b'])
})

t.test('what is posted before an instance knows its new URL counts for the old one', async (t) => {
  await notifying.configure(t, 'late', at('/old'))
  await notifying.start('late')
  await save('late', { url: `${web.url}/new` })
  await notifying.raise('a', FAILS_AGAIN)
  await notifying.untilOutcomes('late', 'delivered')
  await startAnew('late')
  await notifying.raise('b', FAILS_AGAIN)
  await notifying.untilOutcomes('late', 'delivered', 'delivered')
  t.same(told(web.received('/old')), ['a'])
  t.same(told(web.received('/new')), ['b'])
})

t.test('a new configuration of the same name begins without a cooldown', async (t) => {
  await client.create('/plugins/configs?type=notification-webhook', { name: 'again', ...at('/first') })
  await notifying.start('again')
  await notifying.raise('a', FAILS_AGAIN)
  await notifying.untilOutcomes('again', 'delivered')
  t.equal((await client.delete('/plugins/configs/notification-webhook/again')).status, 204)
  await notifying.configure(t, 'again', at('/first'))
  await notifying.start('again')
  await notifying.raise('b', FAILS_AGAIN)
  await notifying.untilOutcomes('again', 'delivered', 'delivered')
  t.same(told(web.received('/first')), ['a', 'b'])
})

t.test('a restart and changes of other settings end no cooldown', async (t) => {
  await notifying.configure(t, 'same', at('/same'))
  await notifying.start('same')
  await notifying.raise('a', FAILS_AGAIN)
  await notifying.untilOutcomes('same', 'delivered')
  await save('same', { enabled: false })
  await save('same', { enabled: true, min_severity: 'critical' })
  await startAnew('same').catch(() => notifying.start('same'))
  await notifying.raise('b', FAILS_AGAIN)
  await notifying.untilOutcomes('same', 'delivered', 'suppressed_cooldown')
  t.same(told(web.received('/same')), ['a'])
})

t.test('what another node has deleted and saved anew is not told at the former URL', async (t) => {
  const { instances, records, supervisor } = notifying.api
  const type = 'notification-webhook'
  await notifying.configure(t, 'elsewhere', at('/former'))
  await notifying.start('elsewhere')
  const { settings } = await records.plugins.get(type, 'elsewhere')
  // As another process would, which knows nothing of this supervisor.
  await records.plugins.delete(type, 'elsewhere', SYSTEM_CALLER)
  const anew = { ...settings, ...at('/latter'), name: 'elsewhere', enabled: true }
  await records.plugins.create(type, anew, SYSTEM_CALLER)
  for (const name of ['a', 'b', 'c']) await notifying.raise(name)
  await instances.round()
  await until(() => supervisor.find(type, 'elsewhere')?.status === 'stopped', LIMIT_MS)
  await notifying.untilOutcomes('elsewhere', 'queued', 'queued', 'queued')
  await notifying.start('elsewhere')
  await notifying.untilOutcomes('elsewhere', 'delivered', 'delivered', 'delivered')
  t.same(told(web.received('/latter')), ['a', 'b', 'c'])
  t.same(web.received('/former'), [])
})
