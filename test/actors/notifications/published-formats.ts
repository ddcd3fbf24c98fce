import type { IAdaptiveCard } from '@microsoft/teams.cards'
import type { KnownBlock } from '@slack/types'

/**
 * Messages as the services take them, of the definitions that Slack and Microsoft publish. JSON Schemas are made of these
 * types, which is why limits stand in comments.
 */

/** A message of Slack's incoming webhooks. */
export interface SlackMessage {
  /**
   * @minLength 1
   * @maxLength 40000
   */
  readonly text: string
  readonly mrkdwn?: boolean
  readonly unfurl_links?: boolean
  readonly unfurl_media?: boolean
  /**
   * @minItems 1
   * @maxItems 50
   */
  readonly blocks: KnownBlock[]
}

/** What a workflow of Teams takes that waits for a webhook request. */
export interface TeamsMessage {
  readonly type: 'message'
  /** @minItems 1 */
  readonly attachments: {
    readonly contentType: 'application/vnd.microsoft.card.adaptive'
    readonly contentUrl: null
    readonly content: IAdaptiveCard
  }[]
}
