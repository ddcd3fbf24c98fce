/** What became of the inside of a layer while the layer itself may still prove broken. */
import type { OpenedContent, Progress } from '../incoming.ts'
import type { ByteSource } from './byte-source.ts'

/** To be called once the layer around it is found in order: it then counts, or throws. */
export type Conclusion = (progress: Progress) => OpenedContent

/** Runs a check that may throw, and keeps what it throws first. */
export class FirstFailure {
  #failure: { readonly thrown: unknown } | null = null

  try(check: () => void): void {
    if (this.#failure !== null) return
    try {
      check()
    } catch (thrown) {
      this.#failure = { thrown }
    }
  }

  /** @throws what a check has thrown */
  tell(): void {
    if (this.#failure !== null) throw this.#failure.thrown
  }
}

/**
 * Waits until the inside of a layer is read to its end, whatever is found in it: of several failures the outermost is
 * told, as if each layer had been opened as a whole before the next.
 * @throws what the layer itself broke off with
 */
export async function settled(inside: ByteSource, opening: Promise<Conclusion>): Promise<Conclusion> {
  try {
    const conclusion = await opening
    await inside.drain()
    return conclusion
  } catch (thrown) {
    await inside.drain()
    return () => {
      throw thrown
    }
  }
}
