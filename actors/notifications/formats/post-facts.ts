import type { ClaimedPost } from '../../../storage/alerts/outbox.ts'

/** What the body of a post is made of. */
export interface PostFacts extends Pick<ClaimedPost, 'alerts' | 'count' | 'severity' | 'test'> {
  /** Name of the `notification-webhook`. */
  readonly notifier: string
  /** Links to subjects begin with it. */
  readonly publicUrl: string
}
