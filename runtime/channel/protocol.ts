import type { MessagePort } from 'node:worker_threads'
import type { ErrorData } from '../errors.ts'

/**
 * Everything that threads say to each other. Messages are structured clones; a port in one is transferred.
 */

/** What a thread is born with (`workerData`). */
export interface Birth {
  readonly type: string
  readonly name: string
  readonly node: string
  /** Of the configuration that `settings` are from. */
  readonly generation: string
  /** URL of the actor's file. */
  readonly actor: string
  readonly settings: unknown
  readonly process: unknown
  readonly logLevel: string
  readonly heartbeatMs: number
  readonly creditWindow: number
  /** Why a source must take nothing in at first; null when it may. */
  readonly heldBack: string | null
}

/** From the supervisor to a thread. */
export type ToThread =
  | { readonly kind: 'stop' }
  | Request
  | Cancellation
  /** The answer to `seek`, and said again whenever the target runs anew. Null: it does not run. */
  | { readonly kind: 'introduction'; readonly target: string; readonly port: MessagePort | null }
  /** The other end, to the target: `source` will announce over `port`. */
  | { readonly kind: 'connection'; readonly source: string; readonly port: MessagePort }
  /** Deliveries wait that no source announces: sent by hand, due again, or another node's. Costs no credit. */
  | { readonly kind: 'announcement'; readonly count: number }
  /** To a source: why it must take nothing in from now on; null when it may again. */
  | { readonly kind: 'intake'; readonly heldBack: string | null }

/** From a thread to the supervisor. */
export type FromThread =
  | { readonly kind: 'heartbeat' }
  | { readonly kind: 'ready' }
  /** Before `ready`: the start failed. After it: the instance cannot go on. The supervisor ends the thread. */
  | { readonly kind: 'failed'; readonly error: ErrorData; readonly stack: string | null }
  /** The last word of a thread that was asked to stop; null when all went well. */
  | { readonly kind: 'stopped'; readonly error: ErrorData | null }
  | Reply
  /** A source wants to announce to this target, now and whenever it runs. Said once for each target. */
  | { readonly kind: 'seek'; readonly target: string }
  /** A source has made deliveries for this target: for whoever runs it elsewhere. Gathered, not one a message. */
  | { readonly kind: 'announced'; readonly target: string }
  /** Why a source takes nothing in, by its own word; null when it does again. Changes alone, a few a second at most. */
  | { readonly kind: 'condition'; readonly text: string | null }

/** From a source to a target, thread to thread. */
export interface Announcement {
  readonly kind: 'announcement'
  /** Deliveries, at least 1. */
  readonly count: number
}

/** Back from the target: so many of the announced deliveries no longer wait. */
export interface Credit {
  readonly kind: 'credit'
  readonly count: number
}

export interface Request {
  readonly kind: 'request'
  /** Unique for the thread's life. */
  readonly id: number
  readonly body: unknown
}

/** Nobody waits for the reply any more. */
export interface Cancellation {
  readonly kind: 'cancellation'
  readonly id: number
}

export type Reply =
  | { readonly kind: 'reply'; readonly id: number; readonly ok: true; readonly value: unknown }
  | { readonly kind: 'reply'; readonly id: number; readonly ok: false; readonly error: ErrorData }
