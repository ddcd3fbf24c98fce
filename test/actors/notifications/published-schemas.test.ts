import t from 'tap'
import { ALERT_CODES, SEVERITIES } from '../../../storage/alerts/alert.ts'
import { query } from '../../../storage/postgres/pool.ts'
import { until } from '../../support/processes.ts'
import { startWebServer } from '../http/web-server.ts'
import { LIMIT_MS, startNotifying } from './notifying.ts'
import { publishedChecks } from './published-checks.ts'

/**
 * Every body that is posted is valid by what is published of its format (see published-checks.ts), whatever an alert looks
 * like. The bodies of alerts as their events raise them are held against the same in alert-codes.test.ts.
 */

t.setTimeout(900_000)

const MARKUP =
  '<!channel> *b* [a](https://evil.example) & {{DATE(2026-03-02T02:14:07Z)}} \u202e\u0007 漢字 😀'

const notifying = await startNotifying(t, { publicUrl: 'https://edi.example.com' })
const web = await startWebServer(t)
const CHECKS = publishedChecks((await notifying.api.client.get('/openapi.yaml')).text)

function bodies(path: string): unknown[] {
  return web.received(path).map(({ body }) => JSON.parse(body.toString()) as unknown)
}

/** The minute in which alerts gather is over, and all of them were raised in it. */
async function endWindow(name: string): Promise<void> {
  await query(
    notifying.api.database.pool,
    `update notification set raised_at = (select min(raised_at) from notification where instance = $1) - interval '1 hour'
     where instance = $1`,
    [name],
  )
}

for (const format of ['generic', 'slack', 'teams'] as const) {
  const check = CHECKS[format]

  t.test(`${format}: each alert of each severity is posted as its schema has it`, async (t) => {
    const name = `${format}-each`
    const path = `/${name}`
    await notifying.configure(t, name, { url: `${web.url}${path}`, format, min_severity: 'info' })
    for (const code of ALERT_CODES) {
      for (const severity of SEVERITIES) await notifying.raise(`${code} ${severity}`, { code, severity })
    }
    await notifying.raise(MARKUP, { summary: MARKUP, details: `${MARKUP}\n\n${MARKUP}` })
    await notifying.raise('long', { summary: '漢'.repeat(300), details: '<&"\\\n'.repeat(500) })
    await notifying.raise('bare', { summary: '', details: '' })
    await notifying.start(name)
    const count = ALERT_CODES.length * SEVERITIES.length + 3
    await until(() => web.received(path).length >= count, LIMIT_MS)
    t.same(bodies(path).map(check), Array<null>(count).fill(null))
  })

  t.test(`${format}: a group and a test are posted as its schema has them`, async (t) => {
    const name = `${format}-group`
    const path = `/${name}`
    const settings = { url: `${web.url}${path}`, format, group_seconds: 60, cooldown_minutes: 0 }
    await notifying.configure(t, name, settings)
    for (let index = 0; index < 30; index += 1) await notifying.raise(`${index} ${MARKUP}`)
    await endWindow(name)
    await notifying.start(name)
    await until(() => web.received(path).length >= 1, LIMIT_MS)
    const { status } = await notifying.api.client.post(`/plugins/configs/notification-webhook/${name}/test`)
    t.equal(status, 200)
    await until(() => web.received(path).length >= 2, LIMIT_MS)
    t.same(bodies(path).map(check), [null, null])
  })

  t.test(`${format}: the fullest group is posted as its schema has it`, async (t) => {
    const name = `${format}-full`
    const path = `/${name}`
    const settings = { url: `${web.url}${path}`, format, group_seconds: 60, cooldown_minutes: 0 }
    await notifying.configure(t, name, settings)
    for (const [index, sign] of ['x', '&', '<', '漢', '😀', '"', '\\', 'é'].entries()) {
      const [subjectName, summary] = [`${index}${sign.repeat(199)}`, sign.repeat(200)]
      const details = `Reason: ${sign.repeat(900)}\nFile: ${sign.repeat(900)}`
      for (const repeats of ['one', 'two', 'three'])
        await notifying.raise(subjectName, { summary, details, repeats: repeats + index })
    }
    await endWindow(name)
    await notifying.start(name)
    await until(() => web.received(path).length >= 1, LIMIT_MS)
    t.same(bodies(path).map(check), [null])
  })
}

/** A body with this property changed, wherever it is. */
function changed(body: unknown, property: string, value: unknown): unknown {
  if (Array.isArray(body)) return body.map((each: unknown) => changed(each, property, value))
  if (typeof body !== 'object' || body === null) return body
  const entries = Object.entries(body).map(
    ([name, inner]) => [name, name === property ? value : changed(inner, property, value)] as const,
  )
  return Object.fromEntries(entries)
}

t.test('the schemas refuse what the services do not take', async (t) => {
  const plain = (length: number) => ({ type: 'plain_text', text: 'x'.repeat(length) })
  const block = (type: string, content: object) => [{ type, ...content }]
  const run = (text: unknown) => ({ type: 'TextRun', text })
  const rich = (...inlines: readonly unknown[]) => [{ type: 'RichTextBlock', inlines }]
  const open = (url: unknown) => [{ type: 'Action.OpenUrl', title: 'Open', url }]
  for (const [format, property, value] of [
    ['generic', 'severity', 'loud'],
    ['generic', 'alerts', []],
    ['slack', 'type', 'banner'],
    ['slack', 'text', null],
    ['slack', 'emoji', 'no'],
    ['slack', 'elements', [{ type: 'mrkdwn' }]],
    ['slack', 'elements', []],
    ['slack', 'elements', Array.from({ length: 11 }, () => plain(1))],
    ['slack', 'blocks', []],
    ['slack', 'blocks', Array.from({ length: 51 }, () => ({ type: 'section', text: plain(1) }))],
    ['slack', 'blocks', block('header', { text: plain(151) })],
    ['slack', 'blocks', block('header', { text: { type: 'mrkdwn', text: 'x' } })],
    ['slack', 'blocks', block('section', { text: plain(3_001) })],
    ['slack', 'blocks', block('section', { text: plain(0) })],
    ['slack', 'blocks', block('section', {})],
    ['slack', 'blocks', block('context', {})],
    ['slack', 'blocks', block('markdown', { text: 'x' })],
    ['teams', 'version', 'one'],
    ['teams', 'version', '1.5'],
    ['teams', 'version', undefined],
    ['teams', 'fallbackText', undefined],
    ['teams', '$schema', 'https://evil.example'],
    ['teams', 'attachments', []],
    ['teams', 'color', 'Crimson'],
    ['teams', 'weight', 'heavy'],
    ['teams', 'body', []],
    ['teams', 'body', rich()],
    ['teams', 'body', rich({ type: 'TextRun' })],
    ['teams', 'body', rich(run(''))],
    ['teams', 'body', rich(run('x'.repeat(14 * 1024)))],
    ['teams', 'body', rich(run('漢'.repeat(28 * 341)))],
    ['teams', 'body', rich({ ...run('x'), selectAction: open('not a url')[0] })],
    ['teams', 'body', [{ type: 'Container', items: [] }]],
    ['teams', 'body', [{ type: 'Container', items: [{ type: 'Table', columns: [], rows: [] }] }]],
    ['teams', 'body', [{ type: 'CodeBlock', codeSnippet: 'x', language: 'Bash' }]],
    ['teams', 'body', [{ type: 'Badge', text: 'x' }]],
    ['teams', 'body', [{ type: 'Chart.Donut', data: [] }]],
    ['teams', 'actions', [{ type: 'Action.Call', title: 'x' }]],
    ['teams', 'actions', open(undefined)],
    ['teams', 'actions', [{ type: 'Action.OpenUrl', url: 'https://edi.example.com' }]],
    ['teams', 'actions', open(7)],
    ['teams', 'actions', open('not a url')],
    ['teams', 'actions', open('javascript:alert(1)')],
    ['teams', 'actions', [{ ...open('https://edi.example.com')[0], tooltip: 'of version 1.5' }]],
  ] as const) {
    const [body] = bodies(`/${format}-each`)
    // As JSON has it: what is undefined is not there.
    const other = JSON.parse(JSON.stringify(changed(body, property, value))) as unknown
    t.not(JSON.stringify(other), JSON.stringify(body), `${format} has ${property}`)
    t.type(CHECKS[format](other), 'string', `${format}: ${property} ${JSON.stringify(value)?.slice(0, 90)}`)
  }
  const [slack] = bodies('/slack-each')
  t.type(CHECKS.slack({ ...(slack as object), colour: 'red' }), 'string')
})
