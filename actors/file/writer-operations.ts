import { youngMemoryKeeper } from '../../runtime/young-memory.ts'
import { Drafts, type ClaimName, type DraftName } from './drafts.ts'
import { Publisher, type Publication } from './publish.ts'

/** What the channel from the parent brings, and what is made of it. */
const COPIES = 2

/** What a writer asks the process of its folder. */
export interface WriterOperations {
  open: (baseDirectory: string) => null
  /** A small file at once. */
  publishWhole: (argument: { readonly publication: Publication; readonly bytes: Uint8Array }) => Promise<null>
  /** False when it was published before. */
  begin: (publication: Publication) => Promise<boolean>
  write: (argument: DraftName & { readonly bytes: Uint8Array }) => Promise<null>
  publish: (draft: DraftName) => Promise<null>
  /** A file among several is complete, and waits for the others. */
  seal: (draft: DraftName) => Promise<null>
  /** All files of a delivery with several that are written. */
  publishAll: (claim: ClaimName) => Promise<null>
  /** All that is written of a delivery and not published. */
  abandon: (claim: ClaimName) => Promise<null>
  finished: (deliveryId: number) => null
  traced: (argument: null) => readonly number[]
}

export function writerOperations(): WriterOperations {
  let publisher: Publisher | null = null
  const drafts = new Drafts()
  const keepYoung = youngMemoryKeeper()
  const opened = (): Publisher => {
    if (publisher === null) throw new Error('The folder is not open')
    return publisher
  }
  return {
    open: (baseDirectory) => {
      publisher = Publisher.open(baseDirectory)
      return null
    },
    publishWhole: async ({ publication, bytes }) => {
      const draft = await opened().begin(publication)
      if (draft === null) return null
      try {
        await draft.write(bytes)
      } catch (thrown) {
        await draft.abandon()
        throw thrown
      }
      await draft.publish()
      return null
    },
    begin: async (publication) => {
      const draft = await opened().begin(publication)
      if (draft !== null) drafts.add(publication, draft)
      return draft !== null
    },
    write: async ({ bytes, ...name }) => {
      await drafts.get(name).write(bytes)
      keepYoung(COPIES * bytes.byteLength)
      return null
    },
    publish: async (name) => {
      await drafts.take(name).publish()
      return null
    },
    seal: async (name) => {
      await drafts.get(name).seal()
      return null
    },
    publishAll: async (claim) => {
      await drafts.publishAll(claim)
      return null
    },
    abandon: async (claim) => {
      await drafts.abandonAll(claim)
      return null
    },
    finished: (deliveryId) => {
      opened().finished(deliveryId)
      return null
    },
    traced: () => opened().traced(),
  }
}
