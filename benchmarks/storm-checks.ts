import type { Post } from './storm-servers.ts'

/** What a notifier must have told of a storm, by its settings. */

export const KINDS = ['without', 'cooldown', 'grouping'] as const

export type Kind = (typeof KINDS)[number]

const RETRIES = { retry_initial_seconds: 1, retry_max_seconds: 4, retry_max_attempts: 100 }

/** The settings of the notifier in each kind of round. */
export const NOTIFIER = {
  without: null,
  cooldown: { cooldown_minutes: 60, group_seconds: 0, ...RETRIES },
  grouping: { cooldown_minutes: 0, group_seconds: 2, ...RETRIES },
} as const satisfies Readonly<Record<Kind, object | null>>

export interface StormFacts {
  readonly kind: Kind
  readonly messages: number
  /** Each is a key of its own. */
  readonly partners: number
  readonly seconds: number
  readonly posts: readonly Post[]
}

export interface StormLog {
  readonly outcomes: readonly { readonly outcome: string; readonly count: number; readonly keys: number }[]
  readonly alerts: readonly { readonly code: string; readonly count: number; readonly subjects: number }[]
}

/** What is not as it must be, each as a sentence. */
export function checked(facts: StormFacts, log: StormLog): string[] {
  const { kind, messages } = facts
  const failures: string[] = []
  const same = (what: string, found: unknown, expected: unknown): void => {
    const [is, must] = [JSON.stringify(found), JSON.stringify(expected)]
    if (is !== must) failures.push(`${kind}: ${what} ${is}, not ${must}`)
  }
  same('alerts are', log.alerts, [{ code: 'delivery_failed', count: messages, subjects: messages }])
  const rows = Object.fromEntries(log.outcomes.map(({ outcome, count }) => [outcome, count]))
  const taken = facts.posts.filter(({ status }) => status === 200)
  const told = taken.reduce((sum, { body }) => sum + body.count, 0)
  same(
    'posts that were taken twice are',
    taken.length - new Set(taken.map(({ webhookId }) => webhookId)).size,
    0,
  )
  if (kind === 'without') same('the log has', rows, {})
  if (kind === 'cooldown') cooled(facts, taken, { rows, same })
  if (kind === 'grouping') {
    same('alerts that were told are', told, messages)
    same('rows of the log that were told are', (rows['delivered'] ?? 0) + (rows['grouped'] ?? 0), messages)
    same('rows that carry a post are', rows['delivered'], taken.length)
    const most = Math.ceil(facts.seconds / NOTIFIER.grouping.group_seconds) + 2
    if (taken.length > most) failures.push(`grouping: ${taken.length} posts, not ${most} at most`)
  }
  return failures
}

interface Checks {
  readonly rows: Readonly<Record<string, number>>
  readonly same: (what: string, found: unknown, expected: unknown) => void
}

/** Each key once, whatever the webhook answered before. */
function cooled({ messages, partners }: StormFacts, taken: readonly Post[], { rows, same }: Checks): void {
  const keys = taken.map(({ body }) => body.alert.dedupe_key)
  same('different keys that were told are', new Set(keys).size, partners)
  same('posts that were taken are', keys.length, partners)
  same('rows of the log that were delivered are', rows['delivered'], partners)
  same('rows that the cooldown left out are', rows['suppressed_cooldown'], messages - partners)
}
