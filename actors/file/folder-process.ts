import { failureOf } from './scan.ts'
import { pollerOperations } from './folder-operations.ts'
import { writerOperations } from './writer-operations.ts'

/**
 * The process that touches the folders of one file instance, for the thread that runs the instance. A file system that
 * hangs, such as that of a server which is away, takes the thread that asks it, of which a process has four for all it
 * does, and keeps that process from ending; here it takes nothing else along. It does one thing after the other, asks
 * nobody, and ends with its parent.
 */

/** A request of the parent; each is answered with its id. */
export interface FolderRequest {
  readonly id: number
  readonly operation: string
  readonly argument: unknown
}

export type FolderReply =
  | { readonly id: number; readonly ok: true; readonly answer: unknown }
  | { readonly id: number; readonly ok: false; readonly failure: ReplyFailure }

export interface ReplyFailure {
  readonly code: string
  readonly message: string
  /** No repeat can mend it. */
  readonly permanent?: true
}

type Operations = Readonly<Record<string, (argument: never) => unknown>>

const operations: Operations =
  process.argv[2] === 'writer' ? { ...writerOperations() } : { ...pollerOperations() }

// What is meant for all processes of a service is not meant for this one: its parent still needs it to end in order.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
process.on('disconnect', () => process.exit(0))
process.on('message', (request: FolderRequest) => void answer(request))

async function answer({ id, operation, argument }: FolderRequest): Promise<void> {
  try {
    const act = operations[operation]
    if (act === undefined) throw new Error(`No operation ${operation}`)
    reply({ id, ok: true, answer: await act(argument as never) })
  } catch (thrown) {
    reply({ id, ok: false, failure: { ...failureOf(thrown), ...kindOf(thrown) } })
  }
}

/** What a repeat cannot mend crosses the border as such. */
function kindOf(thrown: unknown): { readonly permanent?: true } {
  return thrown instanceof Error && thrown.name === 'PermanentFailure' ? { permanent: true } : {}
}

function reply(message: FolderReply): void {
  // The parent may have gone: then there is nobody to tell.
  process.send?.(message, undefined, {}, () => undefined)
}
