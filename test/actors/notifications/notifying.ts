import type { Test } from 'tap'
import { query } from '../../../storage/postgres/pool.ts'
import type { AlertPost } from '../../../actors/notifications/formats/generic.ts'
import { raiseAlert, type RaisedAlert } from '../../support/alerts.ts'
import { startApi, type TestApi, type TestApiOptions } from '../../support/api.ts'
import { until } from '../../support/processes.ts'
import type { ReceivedRequest } from '../http/web-server.ts'

/** A row of the notification log, as the API shows it. */
export interface Row {
  readonly id: number
  readonly alert_id: number
  readonly subject_name: string
  readonly format: string
  readonly outcome: string
  readonly attempts: number
  readonly last_error: string | null
  readonly delivered_at: string | null
  readonly test: boolean
}

export const LIMIT_MS = 120_000

/** So long that tests decide when the window of a group ends, however busy the machine is. */
export const GROUP_SECONDS = 600

/** After the number of its row in the `webhook-id` of a post. */
export const UUID = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'

/** Repeats come soon, so that tests need not wait. */
export const SOON = { retry_initial_seconds: 1, retry_max_seconds: 1 }

/** Instances of `notification-webhook` in their threads, and alerts for them. */
export interface Notifying {
  readonly api: TestApi
  /** Configures a notifier, which is gone after the test: an alert goes to all that there are. Not started. */
  readonly configure: (t: Test, name: string, settings: object) => Promise<void>
  readonly start: (name: string) => Promise<void>
  readonly stop: (name: string) => Promise<void>
  /** Raises an alert about the file of this name; what repeats is the name, unless it is said. */
  readonly raise: (subjectName: string, alert?: Partial<RaisedAlert>) => Promise<void>
  /** Ends the window of the group that waits, which is whatever waits: as if it had all been raised an hour ago. */
  readonly endWindow: (name: string) => Promise<void>
  /** The rows of a notifier, from the oldest. */
  readonly rows: (name: string) => Promise<readonly Row[]>
  /** Waits until the outcomes of its rows are these. */
  readonly untilOutcomes: (name: string, ...outcomes: readonly string[]) => Promise<readonly Row[]>
}

export async function startNotifying(t: Test, options: TestApiOptions = {}): Promise<Notifying> {
  const api = await startApi(t, options)
  const { client, database } = api
  const act = async (name: string, action: 'start' | 'stop'): Promise<void> => {
    const answer = await client.post(`/services/notification-webhook/${name}/${action}`)
    if (answer.status !== 200) throw new Error(answer.text)
  }
  const rows = async (name: string): Promise<readonly Row[]> => {
    const { data } = await client.get(`/notifications?instance=${name}&include_tests=true&limit=500`)
    return (data['notifications'] as readonly Row[]).toSorted((a, b) => a.id - b.id)
  }
  return {
    api,
    configure: async (t, name, settings) => {
      await client.create('/plugins/configs?type=notification-webhook', { name, ...settings })
      t.teardown(() => client.delete(`/plugins/configs/notification-webhook/${name}`))
    },
    start: (name) => act(name, 'start'),
    stop: (name) => act(name, 'stop'),
    raise: (subjectName, alert = {}) =>
      raiseAlert(database.pool, { code: 'delivery_failed', severity: 'critical', subjectName, ...alert }),
    endWindow: async (name) => {
      await query(
        database.pool,
        `update notification set raised_at = exchange_time() - interval '1 hour'
         where instance = $1 and outcome = 'queued' and lease_owner is null`,
        [name],
      )
    },
    rows,
    untilOutcomes: async (name, ...outcomes) => {
      let last: readonly Row[] = []
      await until(async () => {
        last = await rows(name)
        return JSON.stringify(last.map(({ outcome }) => outcome)) === JSON.stringify(outcomes)
      }, LIMIT_MS).catch((error: unknown) => {
        throw new Error(`${String(error)}: ${JSON.stringify(last)}`)
      })
      return last
    },
  }
}

/** The body of a post in the format `generic`. */
export function postOf(request: ReceivedRequest | undefined): AlertPost {
  return JSON.parse(request?.body.toString() ?? 'null') as AlertPost
}

/** What the alerts of each post are about, in the order of the posts. */
export function told(requests: readonly ReceivedRequest[]): string[] {
  return requests.map((request) =>
    postOf(request)
      .alerts.map(({ subject_name }) => subject_name)
      .join(' '),
  )
}
