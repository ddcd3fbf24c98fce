import { hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { lstat, rename, rm, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { makeDirectory, syncDirectory } from '../../storage/durable-file.ts'
import { numbered } from './names.ts'
import { lookAt, sameFile, toCandidate, type Candidate } from './scan.ts'

/** How many numbered names are tried before it counts as a failure. */
const MAX_NUMBER = 10_000

/** A file and the directory that it goes to, below which it keeps its path. */
export interface Move {
  readonly candidate: Candidate
  readonly to: string
}

export type MoveOutcome =
  | { readonly kind: 'moved' }
  /** Somebody took it away, or an earlier move got that far. */
  | { readonly kind: 'gone' }
  /** Something else lies in its place now, and stays there. */
  | { readonly kind: 'changed' }
  | { readonly kind: 'failed'; readonly error: unknown }

/**
 * Moves files out of the folder and makes that durable: a file that came back would be taken in again. The failure of
 * one is its own. One answer per move, in their order.
 */
export async function moveAway(baseDirectory: string, moves: readonly Move[]): Promise<MoveOutcome[]> {
  const outcomes: MoveOutcome[] = []
  const touchedBy = new Map<string, Set<number>>()
  for (const [index, move] of moves.entries()) {
    const touched: string[] = []
    outcomes.push(await moveOne(baseDirectory, move, touched))
    for (const directory of touched) {
      touchedBy.set(directory, (touchedBy.get(directory) ?? new Set()).add(index))
    }
  }
  for (const [directory, indexes] of touchedBy) {
    try {
      await syncDirectory(directory)
    } catch (error) {
      for (const index of indexes) outcomes[index] = { kind: 'failed', error }
    }
  }
  return outcomes
}

async function moveOne(baseDirectory: string, move: Move, touched: string[]): Promise<MoveOutcome> {
  const { candidate, to } = move
  const from = join(baseDirectory, candidate.path)
  try {
    const stats = await lookAt(from)
    if (stats === null) return { kind: 'gone' }
    if (!sameFile(toCandidate(candidate.path, stats), candidate)) return { kind: 'changed' }
    const place = join(to, candidate.path)
    await makeDirectory(dirname(place), 0o777)
    await moveFile(from, await freePath(place))
    touched.push(dirname(from))
    for (let made = dirname(place); made.length >= to.length; made = dirname(made)) touched.push(made)
    return { kind: 'moved' }
  } catch (error) {
    return { kind: 'failed', error }
  }
}

/** The path, or the first numbered one that nothing has, be it a file, a directory or a link. */
async function freePath(path: string): Promise<string> {
  let free = path
  for (let number = 2; !(await isFree(free)); number += 1) {
    if (number > MAX_NUMBER) throw new Error(`No free name for ${basename(path)}`)
    free = join(dirname(path), numbered(basename(path), number))
  }
  return free
}

async function isFree(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return false
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true
    throw error
  }
}

/** Renames; between two file systems, copies durably under a name of its own first. */
async function moveFile(from: string, to: string): Promise<void> {
  try {
    await rename(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
    await copyFile(from, to)
    try {
      await unlink(from)
    } catch (refused) {
      // The next try makes a copy again: they must not pile up.
      await rm(to, { force: true })
      throw refused
    }
  }
}

async function copyFile(from: string, to: string): Promise<void> {
  // No longer than any name, and the same in each try, so that what a crash left is written over.
  const draft = join(dirname(to), `.${hash('sha256', basename(to)).slice(0, 32)}.part`)
  try {
    await pipeline(createReadStream(from), createWriteStream(draft, { flush: true }))
    await rename(draft, to)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}
