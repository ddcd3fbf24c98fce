import type { Alert } from '../../../storage/alerts/alert.ts'
import { linkOf } from '../../../storage/alerts/link.ts'
import { MAX_LISTED } from '../../../storage/alerts/outbox.ts'
import type { PostFacts } from './post-facts.ts'
import { cut, lines } from './text.ts'
import {
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
 * A message of Slack's incoming webhooks (Block Kit). What others named stands in `plain_text` alone, where nothing is
 * markup; links, which need markup, hold words and addresses of our own.
 */

/** Slack refuses a message that goes beyond one of these. */
const MAX_HEADER_LENGTH = 150
const MAX_TEXT_LENGTH = 3000

interface PlainText {
  readonly type: 'plain_text'
  readonly text: string
  readonly emoji: false
}

interface Markup {
  readonly type: 'mrkdwn'
  readonly text: string
  /** Makes no links and mentions of what only looks like them. */
  readonly verbatim: true
}

type Block =
  | { readonly type: 'header'; readonly text: PlainText }
  | { readonly type: 'section'; readonly text: PlainText | Markup }
  | { readonly type: 'context'; readonly elements: readonly (PlainText | Markup)[] }

export interface SlackMessage {
  /** What notifications show, and clients that know no blocks. */
  readonly text: string
  readonly mrkdwn: false
  readonly unfurl_links: false
  readonly unfurl_media: false
  readonly blocks: readonly Block[]
}

export function slackBody(facts: PostFacts): SlackMessage {
  const { alerts, count } = facts
  const title = titleOf(facts)
  const [first] = alerts
  const text = first === undefined ? title : `${title}: ${summaryOf(first)}`
  return {
    text: escaped(text, MAX_TEXT_LENGTH),
    mrkdwn: false,
    unfurl_links: false,
    unfurl_media: false,
    blocks: [
      { type: 'header', text: plain(title, MAX_HEADER_LENGTH) },
      ...(count === 1
        ? alerts.slice(0, 1).flatMap((alert) => told(alert, facts))
        : listed(alerts.slice(0, MAX_LISTED), facts)),
    ],
  }
}

/** One alert with all there is to know of it. */
function told(alert: Alert, facts: PostFacts): Block[] {
  const details = lines(alert.details).join('\n')
  return [
    { type: 'section', text: plain(summaryOf(alert), MAX_TEXT_LENGTH) },
    ...(details === '' ? [] : [{ type: 'section', text: plain(details, MAX_TEXT_LENGTH) } as const]),
    ...linkTo(alert, facts, linkLabelOf(alert)).map((text) => ({ type: 'section', text }) as const),
    { type: 'context', elements: [origin(alert, facts)] },
  ]
}

/** Alerts of a group: what happened and why, when, and where to look. */
function listed(alerts: readonly Alert[], facts: PostFacts): Block[] {
  const rest = restInWords(facts.count, alerts.length)
  return [
    ...alerts.flatMap((alert): Block[] => [
      {
        type: 'section',
        text: plain(`${signOf(alert)} ${summaryOf(alert)}\n${reasonOf(alert)}`.trimEnd(), MAX_TEXT_LENGTH),
      },
      { type: 'context', elements: [origin(alert, facts), ...linkTo(alert, facts, shortLinkLabelOf(alert))] },
    ]),
    ...(rest === null ? [] : [{ type: 'section', text: plain(rest, MAX_TEXT_LENGTH) } as const]),
    { type: 'context', elements: [linked(logLinkOf(facts), LOG_LABEL)] },
  ]
}

function origin(alert: Alert, facts: PostFacts): PlainText {
  return plain(originOf(alert, facts), MAX_TEXT_LENGTH)
}

/** None, or one. */
function linkTo(alert: Alert, { publicUrl }: PostFacts, label: string): Markup[] {
  const link = linkOf(publicUrl, alert.link_path)
  return link === null ? [] : [linked(link, label)]
}

function linked(link: string, label: string): Markup {
  // These end an address within the markup, and are in none that is well-formed.
  const address = link.replaceAll(/[<>|\s]/g, encodeURIComponent)
  return { type: 'mrkdwn', text: `<${escaped(address, MAX_TEXT_LENGTH)}|${label}>`, verbatim: true }
}

function plain(text: string, maxLength: number): PlainText {
  // An empty text is refused.
  return { type: 'plain_text', text: escaped(text, maxLength) || '-', emoji: false }
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }

function written(text: string): string {
  return text.replaceAll(/[&<>]/g, (sign) => ENTITIES[sign] ?? sign)
}

/** Slack takes what begins with `<` for a mention or a link, in every text. No entity is cut in two. */
function escaped(text: string, maxLength: number): string {
  let length = Math.min(text.length, maxLength)
  let result = written(cut(text, length))
  while (result.length > maxLength) {
    length -= Math.max(1, Math.ceil((result.length - maxLength) / 5))
    result = written(cut(text, length))
  }
  return result
}
