import { createHmac, randomBytes } from 'node:crypto'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { parse } from 'yaml'
import { alertPost } from '../../../actors/notifications/formats/generic.ts'
import { claimPost } from '../../../storage/alerts/outbox.ts'
import { answering, header, startWebServer, take } from '../http/web-server.ts'
import { GROUP_SECONDS, postOf, SOON, startNotifying, told, UUID } from './notifying.ts'

/** What a notifier posts, and what it makes of the answers. */

// Each test waits for what it can observe; on a busy machine that adds up.
t.setTimeout(900_000)

const notifying = await startNotifying(t, { publicUrl: 'https://edi.example.com/' })
const web = await startWebServer(t)
const { pool } = notifying.api.database

t.test('an alert is posted as JSON that says what happened and where to look', async (t) => {
  await notifying.configure(t, 'plain', { url: `${web.url}/plain?team=5` })
  await notifying.start('plain')
  web.behave('/plain?team=5', answering(202))
  await notifying.raise('invoice.edi', {
    summary: 'The delivery of invoice.edi failed',
    details: 'Reason: x',
  })
  const [row] = await notifying.untilOutcomes('plain', 'delivered')
  t.match(row, { attempts: 1, last_error: null, delivered_at: String })
  const [request, ...others] = web.received('/plain?team=5')
  t.same(others, [])
  t.equal(request?.method, 'POST')
  t.equal(header(request, 'content-type'), 'application/json')
  t.equal(header(request, 'content-length'), String(request?.body.length))
  t.equal(header(request, 'user-agent'), 'Waybill/test')
  t.match(header(request, 'webhook-id'), new RegExp(`^${row?.id}-${UUID}$`))
  t.match(header(request, 'webhook-timestamp'), /^\d{10}$/)
  t.equal(header(request, 'webhook-signature'), undefined)
  t.equal(header(request, 'authorization'), undefined)
  const post = postOf(request)
  t.same(alertPost.parse(post), post, 'nothing is posted that is not described')
  t.match(post, {
    version: '1',
    type: 'alert.raised',
    notifier: 'plain',
    count: 1,
    alert: {
      alert_id: row?.alert_id,
      severity: 'critical',
      code: 'delivery_failed',
      subject_kind: 'message',
      subject_name: 'invoice.edi',
      summary: 'The delivery of invoice.edi failed',
      details: 'Reason: x',
      dedupe_key: 'delivery_failed/invoice.edi',
      link: /^https:\/\/edi\.example\.com\/api\/v1\/messages\/[0-9a-f-]{36}$/,
      test: false,
    },
  })
  t.same(post.alerts, [post.alert])
})

t.test('the document of the API describes what is posted', async (t) => {
  await notifying.configure(t, 'described', {
    url: `${web.url}/described`,
    group_seconds: GROUP_SECONDS,
  })
  for (const name of ['a', 'b']) await notifying.raise(name)
  await notifying.endWindow('described')
  await notifying.start('described')
  await notifying.untilOutcomes('described', 'delivered', 'grouped')
  await notifying.api.client.post('/plugins/configs/notification-webhook/described/test')
  await notifying.untilOutcomes('described', 'delivered', 'grouped', 'delivered')
  const document = parse((await notifying.api.client.get('/openapi.yaml')).text) as {
    readonly webhooks: { readonly alert: { readonly post: { readonly requestBody: object } } }
  }
  const schema = { $ref: '#/components/schemas/AlertPost' }
  t.match(document.webhooks.alert.post.requestBody, { content: { 'application/json': { schema } } })
  const ajv = new Ajv2020({ strict: false, formats: { 'date-time': true } })
  ajv.addSchema(document, 'openapi')
  const posts = web.received('/described').map(postOf)
  t.same(
    posts.map(({ type }) => type),
    ['alert.grouped', 'alert.test'],
  )
  for (const post of posts)
    t.ok(ajv.validate({ $ref: 'openapi#/components/schemas/AlertPost' }, post), ajv.errorsText())
  t.notOk(ajv.validate({ $ref: 'openapi#/components/schemas/AlertPost' }, { ...posts[0], version: '2' }))
})

t.test('basic authentication and headers are those of the settings', async (t) => {
  await notifying.configure(t, 'settings', {
    url: `${web.url}/settings`,
    basic_username: 'waybill',
    basic_password: 'pässword: with a colon',
    headers: [
      { name: 'X-Team', value: 'operations' },
      { name: 'User-Agent', value: 'Pager/1' },
    ],
  })
  await notifying.start('settings')
  await notifying.raise('a')
  await notifying.untilOutcomes('settings', 'delivered')
  const [request] = web.received('/settings')
  t.equal(header(request, 'user-agent'), 'Pager/1')
  t.equal(header(request, 'x-team'), 'operations')
  const credential = header(request, 'authorization')?.replace('Basic ', '') ?? ''
  t.equal(Buffer.from(credential, 'base64').toString('utf8'), 'waybill:pässword: with a colon')
})

t.test('the formats slack and teams are posted as their services take them', async (t) => {
  for (const format of ['slack', 'teams'])
    await notifying.configure(t, format, { url: `${web.url}/${format}`, format })
  await notifying.start('slack')
  await notifying.start('teams')
  await notifying.raise('invoice.edi', { summary: 'The delivery of invoice.edi failed' })
  for (const format of ['slack', 'teams']) {
    await notifying.untilOutcomes(format, 'delivered')
    const [request] = web.received(`/${format}`)
    t.equal(header(request, 'content-type'), 'application/json')
    t.match(request?.body.toString(), 'The delivery of invoice.edi failed')
    t.match(request?.body.toString(), 'https://edi.example.com/api/v1/messages/')
  }
  t.type((JSON.parse(web.received('/slack')[0]?.body.toString() ?? '') as { blocks: unknown }).blocks, Array)
  t.match(JSON.parse(web.received('/teams')[0]?.body.toString() ?? ''), {
    type: 'message',
    attachments: [{ contentType: 'application/vnd.microsoft.card.adaptive' }],
  })
})

t.test('the log names the format that was posted, which is that of the start', async (t) => {
  const path = '/plugins/configs/notification-webhook/changed'
  const { client } = notifying.api
  const save = async (format: string): Promise<void> => {
    const { status, text } = await client.put(path, { format })
    if (status !== 200) throw new Error(text)
  }
  const formats = async (): Promise<unknown[]> =>
    (await notifying.rows('changed')).map(({ format }) => format)
  await notifying.configure(t, 'changed', { url: `${web.url}/changed`, format: 'generic' })
  await notifying.raise('a')
  t.same(await formats(), ['generic'], 'until then, the saved one')
  await save('slack')
  await notifying.start('changed')
  await notifying.untilOutcomes('changed', 'delivered')
  t.same(await formats(), ['slack'], 'changed before the start')
  await save('teams')
  t.equal((await client.post(`${path}/test`)).status, 200)
  await notifying.raise('b')
  await notifying.untilOutcomes('changed', 'delivered', 'delivered', 'delivered')
  t.same(await formats(), ['slack', 'slack', 'slack'], 'changed while it ran')
  for (const { body } of web.received('/changed')) t.match(body.toString(), '"blocks"')
})

t.test('a signing secret signs each post by Standard Webhooks', async (t) => {
  const key = randomBytes(32)
  const signing_secret = `whsec_${key.toString('base64')}`
  await notifying.configure(t, 'signed', { url: `${web.url}/signed`, signing_secret, ...SOON })
  await notifying.start('signed')
  web.behave('/signed', answering(500, 200))
  await notifying.raise('ü')
  await notifying.untilOutcomes('signed', 'delivered')
  const requests = web.received('/signed')
  t.equal(requests.length, 2)
  for (const request of requests) {
    const stamp = `${header(request, 'webhook-id')}.${header(request, 'webhook-timestamp')}.`
    const signature = createHmac('sha256', key).update(stamp).update(request.body).digest('base64')
    t.equal(header(request, 'webhook-signature'), `v1,${signature}`)
  }
})

t.test('what the server refuses, and a redirect, is failed at once', async (t) => {
  await notifying.configure(t, 'refused', { url: `${web.url}/refused`, ...SOON, cooldown_minutes: 0 })
  const statuses = [400, 401, 403, 404, 410, 422, 301, 307, 308]
  web.behave('/refused', async (request, response, received) => {
    await take(request, received)
    const location = `${web.url}/elsewhere`
    response.writeHead(statuses[received.length - 1] ?? 500, { location }).end()
  })
  await notifying.start('refused')
  for (const status of statuses) await notifying.raise(`${status}`)
  const rows = await notifying.untilOutcomes('refused', ...statuses.map(() => 'failed'))
  for (const [index, { attempts, last_error }] of rows.entries()) {
    t.equal(attempts, 1)
    t.match(last_error, new RegExp(`answered ${statuses[index]} `))
  }
  t.equal(web.received('/refused').length, statuses.length)
  t.same(web.received('/elsewhere'), [])
})

t.test('of a refusal by Slack its word is told, and nothing else of an answer', async (t) => {
  await notifying.configure(t, 'words', { url: `${web.url}/words`, format: 'slack' })
  const answers = [
    'channel_is_archived',
    'Cannot POST /words with hunter2',
    `no_service${'x'.repeat(100_000)}`,
  ]
  web.behave('/words', async (request, response, received) => {
    await take(request, received)
    response.writeHead(404).end(answers[received.length - 1])
  })
  await notifying.start('words')
  for (const name of ['a', 'b', 'c']) await notifying.raise(name)
  const rows = await notifying.untilOutcomes('words', 'failed', 'failed', 'failed')
  t.match(rows[0]?.last_error, '404 Not Found: channel_is_archived, the channel is archived')
  for (const { last_error } of rows.slice(1)) t.equal(last_error, 'The server answered 404 Not Found')
})

t.test('a metadata service is never connected to', async (t) => {
  await notifying.configure(t, 'metadata', { url: 'http://169.254.169.254/latest', ...SOON })
  await notifying.start('metadata')
  await notifying.raise('a')
  const [row] = await notifying.untilOutcomes('metadata', 'failed')
  t.match(row, { attempts: 1, last_error: /metadata service/ })
  t.notMatch(row?.last_error, '169.254')
})

t.test('alerts that are raised while the instance is stopped wait for it, in their order', async (t) => {
  await notifying.configure(t, 'stopped', { url: `${web.url}/stopped` })
  for (const name of ['a', 'b', 'c']) await notifying.raise(name)
  await notifying.untilOutcomes('stopped', 'queued', 'queued', 'queued')
  await notifying.start('stopped')
  await notifying.untilOutcomes('stopped', 'delivered', 'delivered', 'delivered')
  t.same(told(web.received('/stopped')), ['a', 'b', 'c'])
})

t.test('alerts that the filters of a notifier leave out are not posted', async (t) => {
  await notifying.configure(t, 'filtered', {
    url: `${web.url}/filtered`,
    codes: ['message_refused', 'storage_failed'],
    min_severity: 'critical',
  })
  await notifying.start('filtered')
  await notifying.raise('a', { code: 'message_refused', severity: 'warning' })
  await notifying.raise('b', { code: 'delivery_failed' })
  await notifying.raise('c', { code: 'storage_failed' })
  await notifying.untilOutcomes('filtered', 'delivered')
  t.same(told(web.received('/filtered')), ['c'])
})

t.test('a post whose thread has died is made again at once by the next start', async (t) => {
  await notifying.configure(t, 'died', { url: `${web.url}/died` })
  await notifying.raise('a')
  const owner = 'test/died/former/1'
  const { post } = await claimPost(pool, {
    instance: 'died',
    generation:
      (await notifying.api.records.plugins.instance('notification-webhook', 'died'))?.generation ?? '',
    format: 'generic',
    address: '',
    owner,
    leaseSeconds: 3600,
    cooldownSeconds: 0,
    groupSeconds: 0,
  })
  t.match(post, { attempts: 1 })
  await notifying.start('died')
  const [row] = await notifying.untilOutcomes('died', 'delivered')
  t.match(row, { attempts: 2 })
  t.equal(header(web.received('/died')[0], 'webhook-id'), post?.webhookId)
})
