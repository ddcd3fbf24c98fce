import { genericBody } from './generic.ts'
import type { PostFacts } from './post-facts.ts'
import { slackBody } from './slack.ts'
import { teamsBody } from './teams.ts'

/** What a post looks like to each kind of receiver. */
const BODIES = { generic: genericBody, slack: slackBody, teams: teamsBody } as const satisfies Readonly<
  Record<string, (facts: PostFacts) => object>
>

export type Format = keyof typeof BODIES

export const FORMATS = Object.keys(BODIES) as [Format, ...Format[]]

/** The body of a post, as JSON. */
export function bodyOf(format: Format, facts: PostFacts): Buffer {
  return Buffer.from(JSON.stringify(BODIES[format](facts)))
}
