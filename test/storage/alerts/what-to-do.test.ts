import t from 'tap'
import { raisePluginFailed } from '../../../storage/alerts/raise-plugin-failed.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { stallWaiting } from '../../../storage/sql/maintain.ts'
import { createTestDatabase } from '../../support/database.ts'
import { newMessage, passTime, routesTo } from '../exchange/fixture.ts'
import { alertsOf } from './fixture.ts'

/** An alert tells at night what to do, in itself. */

t.setTimeout(300_000)

const FAILED = { type: 'file-writer', name: 'archive', node: 'edi-1', at: new Date() }

t.test('a failed instance: the reason in the summary, and how to start it', async (t) => {
  const { pool } = await createTestDatabase(t)
  await raisePluginFailed(pool, { ...FAILED, reason: 'EACCES: /srv/out\ncannot be written', retries: false })
  const [alert] = await alertsOf(pool)
  t.equal(
    alert?.summary,
    'The plugin instance archive (file-writer) has failed on the node edi-1: EACCES: /srv/out cannot be written',
  )
  t.match(
    alert?.details,
    /^It is not started again by itself: .*POST \/api\/v1\/services\/file-writer\/archive\/start/m,
  )
  t.notMatch(alert?.details, 'tried again by itself')
})

t.test('an instance that an outage failed: that it starts by itself, and nothing else', async (t) => {
  const { pool } = await createTestDatabase(t)
  const reason = 'The database does not answer; the start is tried again by itself'
  await raisePluginFailed(pool, { ...FAILED, reason, retries: true })
  const [alert] = await alertsOf(pool)
  t.match(alert?.details, /^The start is tried again by itself until it succeeds/m)
  t.notMatch(alert?.details, 'not started again')
})

t.test('a reason of any length is cut, and what to do is not', async (t) => {
  const { pool } = await createTestDatabase(t)
  const name = 'n'.repeat(64)
  await raisePluginFailed(pool, {
    ...FAILED,
    name,
    node: 'x'.repeat(300),
    reason: 'why '.repeat(2_000),
    retries: false,
  })
  const [alert] = await alertsOf(pool)
  t.match(alert?.summary, /: why why .*…$/)
  t.match(alert?.details, new RegExp(`services/file-writer/${name}/start starts it\\.$`))
})

t.test(
  'a stalled delivery: how long, the start of its target, and the way to deliver it again',
  async (t) => {
    const { pool } = await createTestDatabase(t)
    const settings: Readonly<Record<string, string>> = {
      stopped: '',
      disabled: `update plugin_configuration set enabled = false where name = 'disabled'`,
      gone: `update delivery set target = 'nobody' where target = 'gone'`,
    }
    await routesTo(pool, ...Object.keys(settings))
    const message = newMessage()
    await accept(pool, [message])
    for (const statement of Object.values(settings)) if (statement !== '') await query(pool, statement)
    await passTime(pool, 86_400)
    t.equal(await stallWaiting(pool, 5), 3)
    const deliveries = await query<{ id: number; target: string }>(pool, 'select id, target from delivery')
    const alerts = await alertsOf(pool)
    t.equal(alerts.length, 3)
    for (const [target, start] of [
      [
        'stopped',
        'If the plugin instance stopped is stopped, start it with POST /api/v1/services/test/stopped/start.',
      ],
      [
        'disabled',
        'The plugin instance disabled is disabled: enable it with PUT /api/v1/plugins/configs/test/disabled, and start it with POST /api/v1/services/test/disabled/start.',
      ],
      ['nobody', 'There is no plugin instance nobody any more.'],
    ] as const) {
      const alert = alerts.find(({ dedupe_key }) => dedupe_key.startsWith(`delivery_stalled/${target}/`))
      const id = deliveries.find((delivery) => delivery.target === target)?.id
      const lines = alert?.details.split('\n') ?? []
      t.equal(lines[0], 'Reason: No target took it for 23 minutes')
      t.same(lines.slice(-2), [
        start,
        `The message does not go on by itself: then deliver it again with POST /api/v1/messages/${message.id}/deliveries/${id}/redeliver.`,
      ])
    }
  },
)
