import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { Refusal } from '../protocol/refusal.ts'

/**
 * When a message is refused that could not be decrypted. The protocol does the same work whatever was wrong with it; what
 * is left of a difference, some microseconds of exceptions and parsing, is hidden by an answer at a time that does not
 * depend on the work: so long after the message was there, for its size.
 */

/** More than opening a small message takes, with an RSA key of 4096 bits. */
const LEAST_MS = 10
/** More than decrypting, searching and hashing it takes, which a large one is twice. */
const MS_PER_MIB = 24
const MIB = 1024 * 1024

/** When a message was there, and how much it was: of one that comes in while it is opened, as far as it has come. */
export interface Arrival {
  /** On the clock of `performance.now()`, as is the other. */
  readonly firstMs: number
  lastMs: number
  sizeBytes: number
}

/** All of a message in memory. */
export function arrived(sizeBytes: number): Arrival {
  const now = performance.now()
  return { firstMs: now, lastMs: now, sizeBytes }
}

/** Opens a message. One that cannot be decrypted is refused no sooner than it should be. */
export async function steadily<Opened>(
  arrival: Readonly<Arrival>,
  open: () => Promise<Opened>,
): Promise<Opened> {
  try {
    return await open()
  } catch (thrown) {
    const isOpaque = thrown instanceof Refusal && thrown.modifier === 'decryption-failed'
    if (isOpaque) await until(dueMs(arrival))
    throw thrown
  }
}

/**
 * Counted from the last bytes, and from the first ones where they came faster than they were worked on: how fast they are
 * taken depends on what is in them.
 */
function dueMs({ firstMs, lastMs, sizeBytes }: Readonly<Arrival>): number {
  const forSizeMs = (sizeBytes / MIB) * MS_PER_MIB
  return Math.max(lastMs + LEAST_MS + forSizeMs, firstMs + 2 * forSizeMs)
}

async function until(timeMs: number): Promise<void> {
  const now = performance.now()
  // Where the work took longer, as on a busy machine, chance goes on top.
  const endMs = now < timeMs ? timeMs : now + randomInt(LEAST_MS * 1_000) / 1_000
  // A timer counts whole milliseconds on a clock that stands still during the work: it may end before its time.
  for (let left = endMs - now; left > 0; left = endMs - performance.now()) await delay(Math.ceil(left))
}
