import { youngMemoryKeeper } from '../../runtime/young-memory.ts'
import type { Candidate } from './candidate.ts'
import { FolderWork, type FolderPlaces, type ReadOutcome } from './folder-work.ts'
import type { MoveOutcome } from './moves.ts'
import type { Page } from './scan.ts'

/** A file that is to be moved away. */
export interface FolderMove {
  readonly messageId: string
  readonly candidate: Candidate
  /** It goes to where refused files go. */
  readonly refused: boolean
}

/** What is read, and what the channel to the parent makes of it. */
const COPIES = 2

/** What a poller asks the process of its folders: of each what it asks, and what the answer is. */
export interface PollerOperations {
  open: (places: FolderPlaces) => null
  identity: (argument: null) => number
  look: (argument: { readonly begin: boolean }) => Page | null
  read: (candidates: readonly Candidate[]) => ReadOutcome[]
  openFile: (candidate: Candidate) => boolean
  readFile: (argument: { readonly bytes: number }) => Uint8Array | null
  closeFile: (argument: null) => null
  moveAway: (moves: readonly FolderMove[]) => MoveOutcome[]
}

export function pollerOperations(): PollerOperations {
  let opened: FolderWork | null = null
  const keepYoung = youngMemoryKeeper()
  const work = (): FolderWork => {
    if (opened === null) throw new Error('The folders are not open')
    return opened
  }
  return {
    open: (places) => {
      opened = FolderWork.open(places)
      return null
    },
    identity: () => work().identity(),
    look: ({ begin }) => work().look(begin),
    read: (candidates) => work().read(candidates),
    openFile: (candidate) => work().openFile(candidate),
    readFile: ({ bytes }) => {
      keepYoung(COPIES * bytes)
      return work().readFile(bytes)
    },
    closeFile: () => {
      work().closeFile()
      return null
    },
    moveAway: (moves) => work().moveAway(moves),
  }
}
