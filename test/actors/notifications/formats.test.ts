import fc from 'fast-check'
import t from 'tap'
import { bodyOf, FORMATS, type Format } from '../../../actors/notifications/formats/format.ts'
import { alertPost, genericBody } from '../../../actors/notifications/formats/generic.ts'
import type { PostFacts } from '../../../actors/notifications/formats/post-facts.ts'
import { slackBody } from '../../../actors/notifications/formats/slack.ts'
import { teamsBody } from '../../../actors/notifications/formats/teams.ts'
import { withoutAddress } from '../../../actors/notifications/posting.ts'
import type { Alert } from '../../../storage/alerts/alert.ts'

/** What posts look like, and that nothing of what others named is more than text in them. */

const ALERT: Alert = {
  id: 7,
  alert_time: new Date('2026-03-02T02:14:07.120Z'),
  severity: 'critical',
  code: 'delivery_failed',
  subject_kind: 'message',
  subject_id: '0198c2f4-6a3e-7c11-9d52-3b1f0a7e4c68',
  subject_name: 'invoice.edi',
  summary: 'The delivery of invoice.edi from acme to globex by erp-out has failed',
  details: 'Reason: The server answered 404 Not Found\nTarget: erp-out',
  dedupe_key: 'delivery_failed/erp-out/globex',
  link_path: '/api/v1/messages/0198c2f4-6a3e-7c11-9d52-3b1f0a7e4c68',
  test: false,
}
const LINK = 'https://edi.example.com/api/v1/messages/0198c2f4-6a3e-7c11-9d52-3b1f0a7e4c68'
const LOG = 'https://edi.example.com/api/v1/notifications?instance=ops'

function factsOf(alerts: readonly Alert[], count = alerts.length): PostFacts {
  return {
    alerts,
    count,
    severity: alerts[0]?.severity ?? 'info',
    test: false,
    notifier: 'ops',
    publicUrl: 'https://edi.example.com',
  }
}

function alertOf(texts: Partial<Alert>): Alert {
  return { ...ALERT, ...texts }
}

/** Every text of a body, with the property that it stands in. */
function textsOf(value: unknown, property = ''): (readonly [string, string])[] {
  if (typeof value === 'string') return [[property, value]]
  if (Array.isArray(value)) return value.flatMap((each: unknown) => textsOf(each, property))
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => textsOf(inner, name))
}

function nodesOf(value: unknown): Record<string, unknown>[] {
  if (Array.isArray(value)) return value.flatMap(nodesOf)
  if (typeof value !== 'object' || value === null) return []
  return [value as Record<string, unknown>, ...Object.values(value).flatMap(nodesOf)]
}

t.test('each format tells what happened, when, to what, and where to look', async (t) => {
  for (const format of FORMATS) {
    const text = bodyOf(format, factsOf([ALERT])).toString()
    for (const part of [ALERT.summary, 'The server answered 404 Not Found', 'invoice.edi', LINK, 'ops'])
      t.match(text, part, `${format}: ${part}`)
    t.match(text, /critical/i, format)
    t.match(text, '2026-03-02T02:14:07.120Z', format)
  }
})

t.test('each format tells of a group how many alerts it is, and of each what happened', async (t) => {
  const alerts = Array.from({ length: 20 }, (_, id): Alert => ({
    ...ALERT,
    id,
    summary: `Number ${id} failed`,
  }))
  for (const format of FORMATS) {
    const text = bodyOf(format, factsOf(alerts, 12_345)).toString()
    t.match(text, '12345', format)
    for (const { summary } of alerts) t.match(text, summary, `${format}: ${summary}`)
    t.match(text, LINK, format)
  }
})

t.test('each format tells of each alert of a group why it happened', async (t) => {
  const alerts = Array.from({ length: 20 }, (_, id) =>
    alertOf({ id, details: `\n  Reason: cause number ${id}\nTarget: erp-out` }),
  )
  for (const format of FORMATS) {
    const text = bodyOf(format, factsOf(alerts, 27)).toString()
    for (const { id } of alerts)
      t.match(text, new RegExp(`Reason: cause number ${id}\\b`), `${format}: ${id}`)
  }
  for (const body of [slackBody, teamsBody]) {
    const text = JSON.stringify(body(factsOf(alerts, 27)))
    t.notMatch(text, 'Target: erp-out', 'of a group the reason is enough')
  }
})

t.test('the longest reason leaves room for each alert of a group', async (t) => {
  const long = (id: number): Alert => alertOf({ id, details: `Reason: ${'x'.repeat(1200)} ` })
  const facts = factsOf(Array.from({ length: 20 }, (_, id) => long(id)))
  for (const body of [slackBody, teamsBody]) {
    const text = JSON.stringify(body(facts))
    t.equal(text.match(/Reason: x{90,199}…/g)?.length, 20)
    t.notMatch(text, 'more alert')
  }
  t.same([...slackProblems(facts), ...teamsProblems(facts)], [])
})

t.test('a post is as urgent as the worst that it stands for, listed or not', async (t) => {
  const warnings = Array.from({ length: 20 }, (_, id) =>
    alertOf({ id, severity: 'warning', code: 'message_refused' }),
  )
  const facts: PostFacts = { ...factsOf(warnings, 27), severity: 'critical' }
  t.match(slackBody(facts).text, /^🔴 Critical: 27 alerts/)
  t.match(slackBody(facts).blocks[0], { type: 'header', text: { text: '🔴 Critical: 27 alerts' } })
  const [{ content }] = teamsBody(facts).attachments
  t.equal(content.fallbackText, '🔴 Critical: 27 alerts')
  t.match(JSON.stringify(content.body[0]), '🔴 Critical: 27 alerts')
  t.match(genericBody(facts), { severity: 'critical', alert: { severity: 'warning' } })
  const informed: PostFacts = { ...facts, severity: 'warning' }
  t.match(slackBody(informed).text, /^🟠 Warning: 27 alerts/)
})

t.test('a group has a link to the log, where those are that it does not list', async (t) => {
  const alerts = Array.from({ length: 20 }, (_, id) => alertOf({ id }))
  const facts: PostFacts = { ...factsOf(alerts, 27), publicUrl: 'https://edi.example.com/' }
  const slack = JSON.stringify(slackBody(facts).blocks)
  t.match(slack, 'and 7 more alerts, see the notification log')
  t.match(slack, `<${LOG}|Open the notification log (with an API token)>`)
  const [{ content }] = teamsBody(facts).attachments
  t.match(JSON.stringify(content.body), 'and 7 more alerts, see the notification log')
  t.same(content.actions, [
    { type: 'Action.OpenUrl', title: 'Open the notification log (with an API token)', url: LOG },
  ])
  t.equal(genericBody(facts).log, LOG)
})

t.test('twenty alerts with names of any length stay within what Teams takes in any encoding', async (t) => {
  for (const length of [10, 60, 200]) {
    const alerts = Array.from({ length: 20 }, (_, id) => {
      const name = `${'x'.repeat(length - 6)}${String(id).padStart(2, '0')}.edi`
      return alertOf({
        id,
        subject_name: name,
        summary: `The delivery of ${name} from acme to globex by erp-out has failed`.slice(0, 200),
      })
    })
    t.same(teamsProblems(factsOf(alerts)), [], `names of ${length}`)
    const text = JSON.stringify(teamsBody(factsOf(alerts)))
    t.equal(text.match(/🔴 The delivery of x/g)?.length, 20, `names of ${length}`)
    t.equal(text.match(/Reason: The server answered 404 Not Found/g)?.length, 20)
    t.equal(text.match(/"url":"[^"]+messages/g)?.length, 20)
    t.notMatch(text, 'more alert')
  }
})

t.test('generic has names and texts as the log has them, and chats keep how a name is written', async (t) => {
  const names = [
    '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}.edi',
    '\u0646\u0627\u0645\u0647\u200c\u0647\u0627.edi',
    '\u0915\u094d\u200d\u0937.edi',
  ]
  for (const name of names) {
    const alert = alertOf({ subject_name: name, summary: `About ${name}`, details: `Reason: ${name}` })
    for (const format of FORMATS) {
      const text = bodyOf(format, factsOf([alert])).toString()
      for (const part of [name, `About ${name}`, `Reason: ${name}`])
        t.ok(text.includes(part), `${format}: ${part}`)
    }
  }
  const odd = { subject_name: 'a\u202eb\u200d', summary: ' c\u0007 ', details: '\n d\r\n\u200bf' }
  t.match(genericBody(factsOf([alertOf(odd)])).alert, odd)
  t.notMatch(JSON.stringify(slackBody(factsOf([alertOf(odd)]))), /\u202e|\u200d|\u200b/)
})

t.test('each format says that a test is one, and needs no link', async (t) => {
  const alert: Alert = { ...ALERT, severity: 'info', code: 'test', test: true, link_path: null }
  for (const format of FORMATS) {
    const text = bodyOf(format, { ...factsOf([alert]), test: true }).toString()
    t.match(text, format === 'generic' ? '"alert.test"' : 'Test notification', format)
    t.notMatch(text, 'https://edi.example.com/api/v1/messages', format)
  }
})

t.test('a notification of Slack is short; its blocks begin with what and how urgent it is', async (t) => {
  const { text, blocks } = slackBody(factsOf([ALERT]))
  t.equal(text, `🔴 Critical: delivery failed: ${ALERT.summary}`)
  t.match(blocks[0], { type: 'header', text: { type: 'plain_text', text: '🔴 Critical: delivery failed' } })
  t.match(JSON.stringify(blocks), `<${LINK}|Open the message (with an API token)>`)
})

t.test('a card of Teams has the subject one click away', async (t) => {
  const [{ content }] = teamsBody(factsOf([ALERT])).attachments
  t.match(content, { type: 'AdaptiveCard', version: '1.4' })
  t.same(content.actions, [
    { type: 'Action.OpenUrl', title: 'Open the message (with an API token)', url: LINK },
  ])
})

const MARKUP = [
  '<!channel>',
  '<https://evil.example|click>',
  '[click](https://evil.example)',
  '*bold* _it_ ~no~ `code`',
  '&lt;!here&gt;',
  '{{DATE(2026-03-02T02:14:07Z,SHORT)}}',
  '{{{{TIME(2026-03-02T02:14:07Z)}}}}',
  'a\u0000b\u0007c\u001bd\r\ne\u202ef\u2028g\u200b',
  '\ud800 alone',
]
const hostile = fc
  .array(fc.oneof(fc.constantFrom(...MARKUP), fc.string({ unit: 'binary', maxLength: 400 })), {
    maxLength: 8,
  })
  .map((parts) => parts.join(' '))
const hostileAlert = fc
  .tuple(hostile, hostile, hostile)
  .map(([subject_name, summary, details]) => alertOf({ subject_name, summary, details }))
const hostileFacts = fc
  .tuple(fc.array(hostileAlert, { minLength: 1, maxLength: 20 }), fc.nat({ max: 10_000 }))
  .map(([alerts, more]) => factsOf(alerts, alerts.length + more))

/** What Slack refuses a message for, or takes for markup. */
function slackProblems(facts: PostFacts): string[] {
  const { text, blocks } = slackBody(facts)
  const links = new Set([
    `<${LINK}|Open the message (with an API token)>`,
    `<${LINK}|Open the message>`,
    `<${LOG}|Open the notification log (with an API token)>`,
  ])
  const problems = [text, ...textsOf(blocks).map(([, each]) => each)].filter(
    (each) => (/[<>]|&(?!amp;|lt;|gt;)/.test(each) && !links.has(each)) || each === '' || each.length > 3000,
  )
  for (const node of nodesOf(blocks)) {
    const { type, elements } = node
    if (type === 'mrkdwn' && !links.has(String(node['text']))) problems.push(String(node['text']))
    if (type === 'header' && (node['text'] as { text: string }).text.length > 150) problems.push('header')
    if (Array.isArray(elements) && elements.length > 10) problems.push('elements')
  }
  if (blocks.length > 50) problems.push(`${blocks.length} blocks`)
  return problems
}

/** What Teams refuses a card for, or takes for markup. */
function teamsProblems(facts: PostFacts): string[] {
  const message = teamsBody(facts)
  const problems = textsOf(message)
    .map(([, each]) => each)
    .filter((each) => each.includes('{{') || each === '')
  // Text blocks and facts are Markdown.
  for (const { type } of nodesOf(message)) if (type === 'TextBlock' || type === 'FactSet') problems.push(type)
  const json = JSON.stringify(message)
  for (const bytes of [Buffer.byteLength(json), Buffer.byteLength(json, 'utf16le')])
    if (bytes >= 28_000) problems.push(`${bytes} bytes`)
  return problems
}

t.test('names and reasons are text and nothing else, within the limits of each service', async (t) => {
  fc.assert(
    fc.property(hostileFacts, (facts) => {
      for (const format of FORMATS) {
        const text = bodyOf(format, facts).toString()
        const value: unknown = JSON.parse(text)
        if (!text.isWellFormed()) throw new Error(`${format} is not well-formed`)
        if (format === 'generic') {
          alertPost.parse(value)
          continue
        }
        const unseen = textsOf(value).filter(([, each]) => /(?![\n\u200c\u200d])[\p{Cc}\p{Cf}]/u.test(each))
        if (unseen.length > 0) throw new Error(`${format}: ${JSON.stringify(unseen)}`)
      }
      const problems = [...slackProblems(facts), ...teamsProblems(facts)]
      if (problems.length > 0) throw new Error(JSON.stringify(problems))
    }),
    { numRuns: 200 },
  )
  t.pass()
})

t.test('the fullest alerts stay within the limits of each service', async (t) => {
  for (const character of ['x', '&', '<', '\u00fc', '\u6f22', '😀', '"', '\\', 'x\n']) {
    const full: Alert = {
      ...ALERT,
      subject_name: character.repeat(300),
      summary: character.repeat(200),
      details: character.repeat(2000).slice(0, 2000),
    }
    for (const count of [1, 20]) {
      const facts = factsOf(
        Array.from({ length: count }, () => full),
        count,
      )
      t.same(slackProblems(facts), [], `Slack: ${count} of ${character}`)
      t.same(teamsProblems(facts), [], `Teams: ${count} of ${character}`)
    }
  }
})

t.test('a card that would be too large keeps its words and drops what is least needed', async (t) => {
  const long: Alert = { ...ALERT, details: '\u6f22'.repeat(2000), summary: '\u6f22'.repeat(200) }
  const one = JSON.stringify(teamsBody(factsOf([long])))
  t.match(one, long.summary)
  t.match(one, '\u6f22'.repeat(400), 'some of the details at least')
  const many = JSON.stringify(teamsBody(factsOf(Array.from({ length: 20 }, () => long))))
  t.equal(
    many.match(/\u6f22{100,120}…/g)?.length,
    20,
    'each is listed, for its cooldown begins with the post',
  )
  t.notMatch(many, 'more alert')
})

t.test('what went wrong is told without the address of the webhook', async (t) => {
  for (const [address, message, told] of [
    [
      'https://hooks.example.com/services/T0/B0/hunter2',
      'getaddrinfo ENOTFOUND hooks.example.com',
      'getaddrinfo ENOTFOUND (address of the webhook)',
    ],
    [
      'http://[::1]:9/hunter2?sig=x',
      'connect ECONNREFUSED ::1:9',
      'connect ECONNREFUSED (address of the webhook):9',
    ],
    [
      'https://a.example/hunter2',
      'GET https://a.example/hunter2 of /hunter2',
      'GET (address of the webhook) of (address of the webhook)',
    ],
    ['https://a.example/', 'read ECONNRESET', 'read ECONNRESET'],
  ] as const) {
    t.equal(withoutAddress(message, address), told)
  }
})

t.test('each format that can be set has a body', async (t) => {
  const formats: readonly Format[] = ['generic', 'slack', 'teams']
  t.same(FORMATS, formats)
})
