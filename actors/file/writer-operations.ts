import { Publisher, type Draft, type Publication } from './publish.ts'

/** A draft as the writer names it. */
export interface DraftName {
  readonly deliveryId: number
  readonly fencing: number
}

/** What a writer asks the process of its folder. */
export interface WriterOperations {
  open: (baseDirectory: string) => null
  /** A small file at once. */
  publishWhole: (argument: { readonly publication: Publication; readonly bytes: Uint8Array }) => Promise<null>
  /** False when it was published before. */
  begin: (publication: Publication) => Promise<boolean>
  write: (argument: DraftName & { readonly bytes: Uint8Array }) => Promise<null>
  publish: (draft: DraftName) => Promise<null>
  abandon: (draft: DraftName) => Promise<null>
  finished: (deliveryId: number) => null
  traced: (argument: null) => readonly number[]
}

const keyOf = ({ deliveryId, fencing }: DraftName): string => `${deliveryId}.${fencing}`

export function writerOperations(): WriterOperations {
  let publisher: Publisher | null = null
  const drafts = new Map<string, Draft>()
  const opened = (): Publisher => {
    if (publisher === null) throw new Error('The folder is not open')
    return publisher
  }
  const found = (name: DraftName): Draft => {
    const draft = drafts.get(keyOf(name))
    if (draft === undefined) throw new Error('The draft has gone')
    return draft
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
      if (draft !== null) drafts.set(keyOf(publication), draft)
      return draft !== null
    },
    write: async ({ bytes, ...name }) => {
      await found(name).write(bytes)
      return null
    },
    publish: async (name) => {
      const draft = found(name)
      drafts.delete(keyOf(name))
      await draft.publish()
      return null
    },
    abandon: async (name) => {
      const draft = drafts.get(keyOf(name))
      drafts.delete(keyOf(name))
      await draft?.abandon()
      return null
    },
    finished: (deliveryId) => {
      opened().finished(deliveryId)
      return null
    },
    traced: () => opened().traced(),
  }
}
