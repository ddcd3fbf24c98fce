import { statfs } from 'node:fs/promises'

/** A directory of the service on whose disk room must be left. */
export interface WatchedDirectory {
  readonly path: string
  /** As a sentence names it: `the data directory /var/lib/waybill/data`. */
  readonly place: string
}

/** A disk that is nearly full, by the first of the directories on it. */
export interface FullDisk {
  readonly place: string
  readonly freeBytes: number
  readonly sizeBytes: number
}

export const MIB = 2 ** 20
/** So much of a disk stays free, that what was taken in can be finished: the database writes for every step. */
const RESERVE_BYTES = 64 * MIB
const RESERVE_SHARE = 0.05

/** Null when room is left on every disk; a directory that cannot be asked is nothing to tell here. */
export async function fullDisk(directories: readonly WatchedDirectory[]): Promise<FullDisk | null> {
  for (const { path, place } of directories) {
    const found = await statfs(path).catch(() => null)
    if (found === null) continue
    const freeBytes = found.bavail * found.bsize
    const sizeBytes = found.blocks * found.bsize
    if (freeBytes < Math.min(RESERVE_BYTES, sizeBytes * RESERVE_SHARE)) return { place, freeBytes, sizeBytes }
  }
  return null
}
