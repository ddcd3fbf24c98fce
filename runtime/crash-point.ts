/**
 * Named points after the durable steps of a message's way. A test ends the whole process at one of them, as a power
 * failure would, and looks at what the next start makes of it. Nothing reaches them but code that is loaded before the
 * program itself (`node --import`): there is no setting, and without a watcher a point is one comparison.
 */
export const CRASH_POINTS = [
  // An AS2 message comes in.
  'as2-receiver.stages-stored',
  'as2-receiver.accepted',
  'as2-receiver.repeat-recorded',
  'as2-receiver.answered',
  'as2-receiver.announced',
  // A file is taken in. Those with a name of the folder's are reached in the process of the folders.
  'file-poller.lease-held',
  'file-poller.payload-stored',
  'file-poller.accepted',
  'file-poller.set-aside',
  'file-poller.second-name',
  'file-poller.first-name-removed',
  'file-poller.moves-synced',
  'file-poller.moved-away',
  'file-poller.refused-released',
  'file-poller.dispatched',
  'file-poller.announced',
  // Somebody asks for something.
  'api.file-stored',
  'api.message-accepted',
  'api.message-announced',
  'api.test-message-accepted',
  'api.redelivered',
  'api.redispatched',
  // A payload goes to its place.
  'payload-put.draft-synced',
  'payload-put.renamed',
  'payload-put.directories-synced',
  'payload-bulk.drafts-synced',
  'payload-bulk.renamed',
  'mover.locked',
  'mover.stored',
  'mover.journal-removed',
  'mover.committed',
  // A target works.
  'delivery.taken-back',
  'delivery.claimed',
  'delivery.attempted',
  'delivery.settled',
  'delivery.finished',
  'as2-sender.composed',
  'as2-sender.sent',
  'as2-sender.answered',
  'as2-sender.judged',
  'http-poster.sent',
  'http-poster.answered',
  'file-writer.draft-begun',
  'file-writer.draft-synced',
  'file-writer.named',
  'file-writer.marked-done',
  'file-writer.marked-naming',
  'file-writer.renamed',
  'file-writer.published',
  // Of a message with several files.
  'file-writer.files-written',
  'file-writer.file-published',
  'file-writer.traces-removed',
  // A receipt comes by itself, or is sent so.
  'receipt-intake.expected',
  'receipt-intake.taken',
  'receipt-dispatch.claimed',
  'receipt-dispatch.sent',
  'receipt-dispatch.settled',
  'receipt-dispatch.ordered-again',
  // A notifier is told of what happened.
  'notification.claimed',
  'notification.posted',
  'notification.settled',
  'notification.certificates-raised',
  'notification.plugin-failed-raised',
  'notification.storage-failed-noted',
  // The clock.
  'clock.ticked',
  'clock.reclaimed',
  'clock.overdue-failed',
  'clock.receipts-expired',
  'clock.stalled',
  'clock.announced',
] as const

export type CrashPoint = (typeof CRASH_POINTS)[number]

export interface CrashWatcher {
  readonly reached: (point: CrashPoint) => void
  /** What lets Node.js load the watcher into a process that this one starts. */
  readonly nodeArguments: readonly string[]
}

let watcher: CrashWatcher | null = null

export function crashPoint(point: CrashPoint): void {
  if (watcher !== null) watcher.reached(point)
}

/** For tests: see above. */
export function watchCrashPoints(watching: CrashWatcher): void {
  watcher = watching
}

/** How Node.js is called for a process whose points are part of this one's way; nothing unless a test watches. */
export function crashWatchArguments(): string[] {
  return [...(watcher?.nodeArguments ?? [])]
}
