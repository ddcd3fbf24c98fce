import { crashPoint } from '../../runtime/crash-point.ts'
import type { Draft } from './publish.ts'

/** A claim of a delivery, whose drafts belong together. */
export interface ClaimName {
  readonly deliveryId: number
  readonly fencing: number
}

/** A draft as the writer names it. */
export interface DraftName extends ClaimName {
  /** Which file of the delivery; null for the only one. */
  readonly file: number | null
}

/** The drafts that are being written, by their names, in the order in which they were begun. */
export class Drafts {
  readonly #byName = new Map<string, Draft>()

  add(name: DraftName, draft: Draft): void {
    this.#byName.set(keyOf(name), draft)
  }

  get(name: DraftName): Draft {
    const draft = this.#byName.get(keyOf(name))
    if (draft === undefined) throw new Error('The draft has gone')
    return draft
  }

  /** The draft, which is nobody else's any more. */
  take(name: DraftName): Draft {
    const draft = this.get(name)
    this.#byName.delete(keyOf(name))
    return draft
  }

  /**
   * Publishes the files of a claim, which are all written: one after the other, each for itself. When one fails those
   * before it stay, and a repeat goes on with it.
   */
  async publishAll(claim: ClaimName): Promise<void> {
    const drafts = this.#takeAll(claim)
    crashPoint('file-writer.files-written')
    try {
      for (const draft of drafts) draft.refuseTaken()
      for (let draft = drafts.shift(); draft !== undefined; draft = drafts.shift()) {
        await draft.publish()
        crashPoint('file-writer.file-published')
      }
    } catch (thrown) {
      await abandonAll(drafts)
      throw thrown
    }
  }

  async abandonAll(claim: ClaimName): Promise<void> {
    await abandonAll(this.#takeAll(claim))
  }

  #takeAll({ deliveryId, fencing }: ClaimName): Draft[] {
    const own = [...this.#byName.keys()].filter((key) => key.startsWith(`${deliveryId}.${fencing}.`))
    return own.flatMap((key) => {
      const draft = this.#byName.get(key)
      this.#byName.delete(key)
      return draft === undefined ? [] : [draft]
    })
  }
}

/** What cannot be removed does not keep the others from it. */
async function abandonAll(drafts: readonly Draft[]): Promise<void> {
  for (const draft of drafts) await draft.abandon().catch(() => undefined)
}

function keyOf({ deliveryId, fencing, file }: DraftName): string {
  return `${deliveryId}.${fencing}.${file ?? ''}`
}
