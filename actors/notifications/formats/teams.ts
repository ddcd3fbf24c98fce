import type { Alert, Severity } from '../../../storage/alerts/alert.ts'
import { linkOf } from '../../../storage/alerts/link.ts'
import { MAX_LISTED } from '../../../storage/alerts/outbox.ts'
import type { PostFacts } from './post-facts.ts'
import { cut, lines } from './text.ts'
import {
  capitalised,
  codeInWords,
  linkLabelOf,
  LOG_LABEL,
  logLinkOf,
  originOf,
  reasonOf,
  restInWords,
  shortLinkLabelOf,
  signOf,
  summaryOf,
  titleOf,
} from './wording.ts'

/**
 * An Adaptive Card 1.4 for a workflow of Microsoft Teams. Names of others stand in text runs alone: there nothing is
 * Markdown, other than in text blocks and facts.
 */

/** Teams refuses posts of 28 KB and more, counted in UTF-16 by some of its ways. */
const MAX_BYTES = 26_000
/** How much of the details is shown, from all that there is to what a card always has room for. */
const DETAILS_LENGTHS = [2000, 1000, 500, 0]
const MAX_DETAIL_LINES = 30

/** What a group shows of each alert. */
interface GroupSize {
  readonly reason: number
  readonly summary: number
  readonly linked: boolean
  readonly most: number
}

const LEAST: GroupSize = { reason: 60, summary: 120, linked: false, most: MAX_LISTED }

/** From all that there is. Only what no text of people is like keeps an alert from being listed, with its reason. */
const GROUP_SIZES: readonly GroupSize[] = [
  { reason: 200, summary: 300, linked: true, most: MAX_LISTED },
  { reason: 100, summary: 300, linked: true, most: MAX_LISTED },
  { reason: 60, summary: 200, linked: true, most: MAX_LISTED },
  { reason: 60, summary: 120, linked: true, most: MAX_LISTED },
  ...Array.from({ length: MAX_LISTED }, (_, less) => Object.assign({}, LEAST, { most: MAX_LISTED - less })),
]

const COLORS = { info: 'Accent', warning: 'Warning', critical: 'Attention' } as const satisfies Record<
  Severity,
  string
>

interface OpenUrl {
  readonly type: 'Action.OpenUrl'
  readonly title?: string
  readonly url: string
}

interface TextRun {
  readonly type: 'TextRun'
  readonly text: string
  readonly weight?: 'Bolder'
  readonly size?: 'Small' | 'Large'
  readonly color?: (typeof COLORS)[Severity]
  readonly isSubtle?: boolean
  readonly selectAction?: OpenUrl
}

interface RichTextBlock {
  readonly type: 'RichTextBlock'
  readonly inlines: readonly TextRun[]
  readonly spacing?: 'None' | 'Small'
  readonly separator?: boolean
}

/** A client of another version shows the fallback, with its markup: it holds words of our own alone. */
export interface AdaptiveCard {
  readonly $schema: 'http://adaptivecards.io/schemas/adaptive-card.json'
  readonly type: 'AdaptiveCard'
  readonly version: '1.4'
  readonly fallbackText: string
  readonly body: readonly RichTextBlock[]
  readonly actions: readonly OpenUrl[]
}

export interface TeamsMessage {
  readonly type: 'message'
  readonly attachments: readonly [
    {
      readonly contentType: 'application/vnd.microsoft.card.adaptive'
      readonly contentUrl: null
      readonly content: AdaptiveCard
    },
  ]
}

/** The fullest card that Teams takes. */
export function teamsBody(facts: PostFacts): TeamsMessage {
  const [first] = facts.alerts
  const sizes =
    facts.count === 1 && first !== undefined
      ? DETAILS_LENGTHS.map((length) => () => cardOf(facts, told(first, facts, length)))
      : GROUP_SIZES.map((size) => () => cardOf(facts, listed(facts, size)))
  let message = cardOf(facts, [])
  for (const make of sizes) {
    message = make()
    if (bytesOf(message) <= MAX_BYTES) break
  }
  return message
}

/** As UTF-8, or as UTF-16 if that is more. */
function bytesOf(message: TeamsMessage): number {
  const json = JSON.stringify(message)
  return Math.max(Buffer.byteLength(json), json.length * 2)
}

function cardOf(facts: PostFacts, body: AdaptiveCard['body']): TeamsMessage {
  const title = titleOf(facts)
  const [first] = facts.alerts
  const action = first === undefined || facts.count > 1 ? logOf(facts) : linkTo(first, facts)
  const content: AdaptiveCard = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    fallbackText: title,
    body: [paragraph([run(title, { weight: 'Bolder', size: 'Large' })]), ...body],
    actions: action === null ? [] : [action],
  }
  const contentType = 'application/vnd.microsoft.card.adaptive'
  return { type: 'message', attachments: [{ contentType, contentUrl: null, content }] }
}

/** One alert with all there is to know of it. */
function told(alert: Alert, facts: PostFacts, detailsLength: number): AdaptiveCard['body'] {
  const details = linesWithin(alert.details, detailsLength).map((text) => paragraph([run(text)], 'Small'))
  return [
    paragraph([run(summaryOf(alert), { weight: 'Bolder', color: COLORS[alert.severity] })]),
    ...details,
    paragraph([run(capitalised(originOf(alert, facts)), { isSubtle: true, size: 'Small' })]),
  ]
}

/** Alerts of a group: what happened and why, when, and where to look. */
function listed(facts: PostFacts, size: GroupSize): AdaptiveCard['body'] {
  const shown = facts.alerts.slice(0, size.most)
  const rest = restInWords(facts.count, shown.length)
  return [
    ...shown.flatMap((alert) => {
      const summary = `${signOf(alert)} ${cut(summaryOf(alert), size.summary)}`
      const reason = reasonOf(alert, size.reason)
      const aside = [reason, codeInWords(alert), alert.alert_time.toISOString()].filter((part) => part !== '')
      const url = size.linked ? linkOf(facts.publicUrl, alert.link_path) : null
      const link = run(shortLinkLabelOf(alert), {
        size: 'Small',
        ...(url === null ? {} : { selectAction: { type: 'Action.OpenUrl', url } }),
      })
      return [
        { ...paragraph([run(summary, { color: COLORS[alert.severity] })]), separator: true },
        paragraph(
          [run(`${aside.join(' · ')}  `, { isSubtle: true, size: 'Small' }), ...(url === null ? [] : [link])],
          'None',
        ),
      ]
    }),
    ...(rest === null ? [] : [paragraph([run(rest)])]),
  ]
}

function linkTo(alert: Alert, { publicUrl }: PostFacts): OpenUrl | null {
  const url = linkOf(publicUrl, alert.link_path)
  return url === null ? null : { type: 'Action.OpenUrl', title: linkLabelOf(alert), url }
}

function logOf(facts: PostFacts): OpenUrl {
  return { type: 'Action.OpenUrl', title: LOG_LABEL, url: logLinkOf(facts) }
}

function linesWithin(text: string, maxLength: number): readonly string[] {
  const all = lines(cut(text, maxLength))
  if (all.length <= MAX_DETAIL_LINES) return all
  return [...all.slice(0, MAX_DETAIL_LINES - 1), all.slice(MAX_DETAIL_LINES - 1).join(' · ')]
}

function paragraph(inlines: readonly TextRun[], spacing?: RichTextBlock['spacing']): RichTextBlock {
  return { type: 'RichTextBlock', inlines, ...(spacing === undefined ? {} : { spacing }) }
}

function run(text: string, look: Omit<TextRun, 'type' | 'text'> = {}): TextRun {
  return { type: 'TextRun', text: written(text), ...look }
}

/** Cards replace `{{DATE(…)}}` in every text. */
function written(text: string): string {
  return text.replaceAll(/\{(?=\{)/g, '{ ')
}
