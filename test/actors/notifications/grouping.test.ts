import t from 'tap'
import { query } from '../../../storage/postgres/pool.ts'
import { until } from '../../support/processes.ts'
import { answering, header, startWebServer, take } from '../http/web-server.ts'
import { GROUP_SECONDS, LIMIT_MS, postOf, SOON, startNotifying, told, UUID } from './notifying.ts'

/** What a notifier leaves out, and what shares a post (specification, 3.6). */

t.setTimeout(900_000)

const notifying = await startNotifying(t)
const web = await startWebServer(t)
const { pool } = notifying.api.database

t.test('an alert whose key was delivered within the cooldown is suppressed', async (t) => {
  await notifying.configure(t, 'cooling', { url: `${web.url}/cooling`, cooldown_minutes: 15 })
  await notifying.start('cooling')
  await notifying.raise('a', { repeats: 'one' })
  await notifying.untilOutcomes('cooling', 'delivered')
  await notifying.raise('b', { repeats: 'one' })
  await notifying.raise('c', { repeats: 'other' })
  const rows = await notifying.untilOutcomes('cooling', 'delivered', 'suppressed_cooldown', 'delivered')
  t.match(rows[1], { attempts: 0, last_error: null, delivered_at: null })
  t.same(told(web.received('/cooling')), ['a', 'c'])
  await query(pool, `update notification set posted_at = posted_at - interval '901 seconds'`)
  await notifying.raise('d', { repeats: 'one' })
  await notifying.untilOutcomes('cooling', 'delivered', 'suppressed_cooldown', 'delivered', 'delivered')
  t.same(told(web.received('/cooling')), ['a', 'c', 'd'], 'after the cooldown it is told again')
})

t.test('without a cooldown every alert is posted', async (t) => {
  await notifying.configure(t, 'hot', { url: `${web.url}/hot`, cooldown_minutes: 0 })
  for (const name of ['a', 'b', 'c']) await notifying.raise(name, { repeats: 'one' })
  await notifying.start('hot')
  await notifying.untilOutcomes('hot', 'delivered', 'delivered', 'delivered')
  t.same(told(web.received('/hot')), ['a', 'b', 'c'])
})

t.test('an alert of the same key waits for the outcome of an older one', async (t) => {
  await notifying.configure(t, 'waiting', { url: `${web.url}/waiting`, ...SOON })
  const held = Promise.withResolvers<void>()
  web.behave('/waiting', async (request, response, received) => {
    await take(request, received)
    if (received.length === 1) await held.promise
    response.writeHead(received.length === 1 ? 404 : 200).end()
  })
  await notifying.start('waiting')
  await notifying.raise('a', { repeats: 'one' })
  await until(() => web.received('/waiting').length === 1, LIMIT_MS)
  await notifying.raise('b', { repeats: 'one' })
  await notifying.raise('c', { repeats: 'one' })
  await notifying.untilOutcomes('waiting', 'queued', 'queued', 'queued')
  held.resolve()
  await notifying.untilOutcomes('waiting', 'failed', 'delivered', 'suppressed_cooldown')
  t.same(told(web.received('/waiting')), ['a', 'b'], 'one that failed cools nothing')
})

t.test('alerts within group_seconds of the oldest share one post', async (t) => {
  await notifying.configure(t, 'grouped', { url: `${web.url}/grouped`, group_seconds: GROUP_SECONDS })
  for (const name of ['a', 'b', 'c', 'd', 'e']) await notifying.raise(name)
  await notifying.endWindow('grouped')
  await notifying.start('grouped')
  const outcomes = ['delivered', 'grouped', 'grouped', 'grouped', 'grouped']
  const [carrier, ...others] = await notifying.untilOutcomes('grouped', ...outcomes)
  t.match(carrier, { attempts: 1 })
  for (const row of others) t.match(row, { attempts: 0, last_error: null })
  await until(
    async () => (await notifying.rows('grouped')).every((row) => row.delivered_at !== null),
    LIMIT_MS,
  )
  const [request, ...more] = web.received('/grouped')
  t.same(more, [])
  t.match(header(request, 'webhook-id'), new RegExp(`^${carrier?.id}-${UUID}$`))
  const post = postOf(request)
  t.match(post, { type: 'alert.grouped', count: 5, alert: { subject_name: 'a' } })
  t.same(told(web.received('/grouped')), ['a b c d e'])
})

t.test('a post waits until its window ends', async (t) => {
  await notifying.configure(t, 'window', { url: `${web.url}/window`, group_seconds: 2 })
  await notifying.start('window')
  await notifying.raise('a')
  await notifying.untilOutcomes('window', 'delivered')
  const [waited] = await query<{ seconds: number }>(
    pool,
    `select extract(epoch from posted_at - raised_at)::float8 as seconds from notification where instance = 'window'`,
  )
  t.ok((waited?.seconds ?? 0) >= 2, `${waited?.seconds}`)
})

t.test(
  'what comes after the window of a group is in the next, also when the instance was stopped',
  async (t) => {
    await notifying.configure(t, 'next', { url: `${web.url}/next`, group_seconds: GROUP_SECONDS })
    await notifying.raise('a')
    await notifying.raise('b')
    await notifying.endWindow('next')
    await notifying.raise('c')
    await notifying.raise('d')
    await notifying.start('next')
    await notifying.untilOutcomes('next', 'delivered', 'grouped', 'queued', 'queued')
    await notifying.endWindow('next')
    await notifying.untilOutcomes('next', 'delivered', 'grouped', 'delivered', 'grouped')
    t.same(told(web.received('/next')), ['a b', 'c d'])
  },
)

t.test('a post lists twenty alerts of its group and says how many it stands for', async (t) => {
  await notifying.configure(t, 'many', { url: `${web.url}/many`, group_seconds: GROUP_SECONDS })
  const names = Array.from({ length: 30 }, (_, index) => `file-${index}`)
  for (const name of names) await notifying.raise(name)
  await notifying.endWindow('many')
  await notifying.start('many')
  await notifying.untilOutcomes('many', 'delivered', ...names.slice(1).map(() => 'grouped'))
  t.equal(postOf(web.received('/many')[0]).count, 30)
  t.same(told(web.received('/many')), [names.slice(0, 20).join(' ')])
})

t.test(
  'within a cooldown a group tells what repeats once, and without one as often as it came',
  async (t) => {
    const settings = { group_seconds: GROUP_SECONDS }
    await notifying.configure(t, 'once', { ...settings, url: `${web.url}/once`, cooldown_minutes: 15 })
    await notifying.configure(t, 'often', { ...settings, url: `${web.url}/often`, cooldown_minutes: 0 })
    for (const [name, repeats] of [
      ['a', 'one'],
      ['b', 'one'],
      ['c', 'two'],
      ['d', 'one'],
    ] as const) {
      await notifying.raise(name, { repeats })
    }
    for (const name of ['once', 'often']) {
      await notifying.endWindow(name)
      await notifying.start(name)
    }
    await notifying.untilOutcomes(
      'once',
      'delivered',
      'suppressed_cooldown',
      'grouped',
      'suppressed_cooldown',
    )
    t.same(told(web.received('/once')), ['a c'])
    t.equal(postOf(web.received('/once')[0]).count, 2)
    await notifying.untilOutcomes('often', 'delivered', 'grouped', 'grouped', 'grouped')
    t.same(told(web.received('/often')), ['a c b d'])
  },
)

t.test(
  'a critical alert is told first and makes its group critical, however many warnings came before',
  async (t) => {
    for (const format of ['generic', 'slack', 'teams']) {
      const name = `worst-${format}`
      await notifying.configure(t, name, { url: `${web.url}/${name}`, format, group_seconds: GROUP_SECONDS })
    }
    const refused = Array.from({ length: 25 }, (_, index) => `refused-${index}`)
    for (const name of refused) await notifying.raise(name, { code: 'message_refused', severity: 'warning' })
    await notifying.raise('lost.edi', { details: 'Reason: the disk of the partner is full' })
    await notifying.raise('archive', { code: 'plugin_failed', details: 'Reason: no such directory' })
    for (const format of ['generic', 'slack', 'teams']) {
      const name = `worst-${format}`
      await notifying.endWindow(name)
      await notifying.start(name)
      await notifying.untilOutcomes(name, 'delivered', ...Array.from({ length: 26 }, () => 'grouped'))
      t.equal(web.received(`/${name}`).length, 1, name)
      const text = web.received(`/${name}`)[0]?.body.toString() ?? ''
      for (const part of ['lost.edi', 'the disk of the partner is full', 'archive', 'no such directory'])
        t.ok(text.includes(part), `${name}: ${part}`)
      t.ok(text.indexOf('archive') < text.indexOf('refused-'), `${name}: the worst first`)
      t.match(text, format === 'generic' ? '"severity":"critical","log":' : '🔴 Critical: 27 alerts')
      t.match(text, `/api/v1/notifications?instance=${name}`)
    }
  },
)

t.test('a group is repeated as it is, and ends as its post does', async (t) => {
  await notifying.configure(t, 'again', { url: `${web.url}/again`, group_seconds: GROUP_SECONDS, ...SOON })
  web.behave('/again', async (request, response, received) => {
    await take(request, received)
    // Comes too late for the group, and has a post of its own.
    if (received.length === 1) await notifying.raise('c')
    response.writeHead([500, 200, 404][received.length - 1] ?? 200).end()
  })
  await notifying.raise('a')
  await notifying.raise('b')
  await notifying.endWindow('again')
  await notifying.start('again')
  await notifying.untilOutcomes('again', 'delivered', 'grouped', 'queued')
  await notifying.endWindow('again')
  const rows = await notifying.untilOutcomes('again', 'delivered', 'grouped', 'failed')
  t.match(rows[0], { attempts: 2 })
  t.same(told(web.received('/again')), ['a b', 'a b', 'c'])
})

t.test('a group whose post fails for good has failed', async (t) => {
  await notifying.configure(t, 'lost', { url: `${web.url}/lost`, group_seconds: GROUP_SECONDS })
  web.behave('/lost', answering(410))
  await notifying.raise('a')
  await notifying.raise('b')
  await notifying.endWindow('lost')
  await notifying.start('lost')
  const rows = await notifying.untilOutcomes('lost', 'failed', 'failed')
  for (const row of rows) t.match(row, { last_error: /410 Gone/, delivered_at: null })
  t.equal(web.received('/lost').length, 1)
})

t.test('an alert that is delivered with a group begins the cooldown of its key', async (t) => {
  await notifying.configure(t, 'both', { url: `${web.url}/both`, group_seconds: GROUP_SECONDS })
  await notifying.raise('a', { repeats: 'one' })
  await notifying.raise('b', { repeats: 'two' })
  await notifying.endWindow('both')
  await notifying.start('both')
  await notifying.untilOutcomes('both', 'delivered', 'grouped')
  await until(async () => (await notifying.rows('both')).every((row) => row.delivered_at !== null), LIMIT_MS)
  await notifying.raise('c', { repeats: 'two' })
  await notifying.raise('d', { repeats: 'three' })
  await notifying.untilOutcomes('both', 'delivered', 'grouped', 'suppressed_cooldown', 'queued')
  await notifying.endWindow('both')
  await notifying.untilOutcomes('both', 'delivered', 'grouped', 'suppressed_cooldown', 'delivered')
  t.same(told(web.received('/both')), ['a b', 'd'])
})

t.test('an alert that its group did not list begins no cooldown', async (t) => {
  await notifying.configure(t, 'unlisted', { url: `${web.url}/unlisted`, group_seconds: GROUP_SECONDS })
  const names = Array.from({ length: 21 }, (_, index) => `file-${index}`)
  for (const name of names) await notifying.raise(name)
  await notifying.endWindow('unlisted')
  await notifying.start('unlisted')
  const first = ['delivered', ...names.slice(1).map(() => 'grouped')]
  await notifying.untilOutcomes('unlisted', ...first)
  await until(
    async () => (await notifying.rows('unlisted')).every((row) => row.delivered_at !== null),
    LIMIT_MS,
  )
  await notifying.raise('file-19')
  await notifying.raise('file-20')
  await notifying.untilOutcomes('unlisted', ...first, 'suppressed_cooldown', 'queued')
  await notifying.endWindow('unlisted')
  await notifying.untilOutcomes('unlisted', ...first, 'suppressed_cooldown', 'delivered')
  t.same(told(web.received('/unlisted')), [names.slice(0, 20).join(' '), 'file-20'])
})
