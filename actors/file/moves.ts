import { hash } from 'node:crypto'
import {
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  futimesSync,
  linkSync,
  lstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  type Stats,
} from 'node:fs'
import { crashPoint } from '../../runtime/crash-point.ts'
import { directoryOf, sameContent, toCandidate, type Candidate } from './candidate.ts'
import { codeOf, isMissing, NoDirectory, Walk, type Directory } from './directory.ts'
import { numbered } from './names.ts'
import { failureOf } from './scan.ts'

/** How many numbered names are tried before it counts as a failure. */
const MAX_NUMBER = 10_000
const DIRECTORY_MODE = 0o777
const COMPARED_BYTES = 64 * 1024

/** A file and the directory that it goes to, below which it keeps its path. */
export interface Move {
  readonly messageId: string
  readonly candidate: Candidate
  /** Absolute. */
  readonly to: string
}

export type MoveOutcome =
  | { readonly kind: 'moved' }
  /** Somebody took it away, or an earlier move got that far. `base` is the number of the base directory that lacks it. */
  | { readonly kind: 'gone'; readonly base: number }
  /** Something else lies in its place now, and stays there. */
  | { readonly kind: 'changed' }
  | { readonly kind: 'failed'; readonly failure: { readonly code: string; readonly message: string } }

/**
 * Moves files out of the folder and makes that durable: a file that came back would be taken in again. The failure of
 * one is its own. One answer per move, in their order.
 *
 * A file is first given a hidden name that its message has alone, in its own directory, and then looked at: only the
 * file that was taken in is moved on, and what somebody has put into its place meanwhile gets its name back. Nothing is
 * written over on either side, and a move that was cut off is gone on with.
 *
 * @param open opens a directory that files go to; throws when none may.
 */
export function moveAway(
  base: string,
  moves: readonly Move[],
  open = (path: string): Walk => new Walk(path),
): MoveOutcome[] {
  const from = new Walk(base)
  const targets = new Map<string, Walk>()
  const touched: Touched = { made: new Map(), left: new Map() }
  try {
    const outcomes = moves.map((move, index): MoveOutcome => {
      try {
        const walk = targets.get(move.to) ?? open(move.to)
        targets.set(move.to, walk)
        return moveOne({ base: from, target: walk }, move, (kind, directory) => {
          const indexes = touched[kind].get(directory) ?? []
          touched[kind].set(directory, indexes)
          indexes.push(index)
        })
      } catch (thrown) {
        return { kind: 'failed', failure: failureOf(thrown) }
      }
    })
    // The new names first: a file must not be gone from both.
    for (const [directory, indexes] of [...touched.made, ...touched.left]) {
      try {
        directory.sync()
      } catch (thrown) {
        for (const index of indexes) outcomes[index] = { kind: 'failed', failure: failureOf(thrown) }
      }
    }
    crashPoint('file-poller.moves-synced')
    return outcomes
  } finally {
    for (const walk of [from, ...targets.values()]) walk.close()
  }
}

/** Directories with new and with removed names, and the moves that touched them. */
type Touched = Readonly<Record<'made' | 'left', Map<Directory, number[]>>>

function moveOne(
  { base, target }: { readonly base: Walk; readonly target: Walk },
  { candidate, messageId }: Move,
  touch: (kind: keyof Touched, directory: Directory) => void,
): MoveOutcome {
  const from = enterIfThere(base, directoryOf(candidate.path))
  const gone = { kind: 'gone', base: base.base.ino } as const
  if (from === null) return gone
  const taken = `.${messageId}.taken`
  if (look(from, taken) === null) {
    const found = look(from, candidate.name)
    if (found === null) return gone
    if (!isCandidate(found, candidate)) return { kind: 'changed' }
    told(from, () => renameSync(from.at(candidate.name), from.at(taken)))
    crashPoint('file-poller.set-aside')
  }
  touch('left', from)
  const found = look(from, taken)
  if (found === null) return gone
  if (!isCandidate(found, candidate)) {
    putBack(from, taken, candidate.name)
    return { kind: 'changed' }
  }
  try {
    const to = target.enterOrMake(directoryOf(candidate.path), DIRECTORY_MODE)
    moveFile({ from, name: taken, facts: found }, to, candidate.name)
    touch('made', to)
    return { kind: 'moved' }
  } catch (thrown) {
    putBack(from, taken, candidate.name)
    throw thrown
  }
}

function enterIfThere(walk: Walk, path: string): Directory | null {
  try {
    return walk.enter(path)
  } catch (thrown) {
    if (isMissing(thrown) || thrown instanceof NoDirectory) return null
    throw thrown
  }
}

function isCandidate(found: Stats, candidate: Candidate): boolean {
  return found.isFile() && sameContent(toCandidate(candidate.path, found), candidate)
}

/** Null for nothing. */
function look(directory: Directory, name: string): Stats | null {
  return told(directory, () => lstatSync(directory.at(name), { throwIfNoEntry: false })) ?? null
}

function told<T>(directory: Directory, act: () => T): T {
  try {
    return act()
  } catch (thrown) {
    throw directory.told(thrown)
  }
}

/** A file that is to get another name, and what it was when it was looked at. */
interface Source {
  readonly from: Directory
  readonly name: string
  readonly facts: Stats
}

/** Gives it back its name, or a numbered one where another file has come meanwhile. */
function putBack(from: Directory, taken: string, name: string): void {
  const facts = look(from, taken)
  if (facts !== null) moveFile({ from, name: taken, facts }, from, name)
}

/** Moves without writing over anything: as a second name, which is refused where one is, and then the only one. */
function moveFile(source: Source, to: Directory, name: string): void {
  const { from, facts } = source
  for (let number = 1; number <= MAX_NUMBER; number += 1) {
    const free = number === 1 ? name : numbered(name, number)
    const there = look(to, free)
    // An earlier try has got as far as the second name.
    if (there?.ino === facts.ino && there.dev === facts.dev) return removeSource(source)
    if (there === null && giveName(source, to, free)) return
    if (there !== null && isCopy(source, to, free, there)) {
      to.sync()
      return removeSource(source)
    }
  }
  throw new Error(`No free name for ${name} in ${to.path} (from ${from.path})`)
}

function removeSource({ from, name }: Source): void {
  told(from, () => rmSync(from.at(name), { force: true }))
}

/** False when the name was taken at the last moment. */
function giveName(source: Source, to: Directory, name: string): boolean {
  const { from } = source
  try {
    linkSync(from.at(source.name), to.at(name))
  } catch (thrown) {
    const code = codeOf(thrown) ?? ''
    if (code === 'EEXIST') return false
    if (code === 'EXDEV') return copyOver(source, to, name)
    // No second names there, or not of the files of another account.
    if (!['EPERM', 'EACCES', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EINVAL'].includes(code))
      throw to.told(from.told(thrown))
    return renameOver(source, to, name)
  }
  crashPoint('file-poller.second-name')
  removeSource(source)
  crashPoint('file-poller.first-name-removed')
  return true
}

function renameOver(source: Source, to: Directory, name: string): boolean {
  const { from } = source
  try {
    renameSync(from.at(source.name), to.at(name))
    return true
  } catch (thrown) {
    if (codeOf(thrown) === 'EXDEV') return copyOver(source, to, name)
    throw to.told(from.told(thrown))
  }
}

/** To another file system: a durable copy under its name, and only then is the original removed. */
function copyOver(source: Source, to: Directory, name: string): boolean {
  const { from, facts } = source
  // The same in each try, so that what a crash left is written over, and no longer than any name.
  const draft = `.${hash('sha256', source.name).slice(0, 32)}.part`
  try {
    copyFileSync(from.at(source.name), to.at(draft))
    const handle = openSync(to.at(draft), constants.O_RDWR | (constants.O_NOFOLLOW ?? 0))
    try {
      futimesSync(handle, facts.atime, facts.mtime)
      fsyncSync(handle)
    } finally {
      closeSync(handle)
    }
    if (!giveName({ from: to, name: draft, facts: lstatSync(to.at(draft)) }, to, name)) {
      rmSync(to.at(draft), { force: true })
      return false
    }
    to.sync()
  } catch (thrown) {
    rmSync(to.at(draft), { force: true })
    throw to.told(from.told(thrown))
  }
  removeSource(source)
  return true
}

/** Whether it is the copy of an earlier try on another file system, which was cut off before the original was removed. */
function isCopy({ from, name, facts }: Source, to: Directory, free: string, there: Stats): boolean {
  if (!there.isFile() || there.dev === facts.dev || there.size !== facts.size) return false
  // As exact as every file system keeps it.
  if (Math.floor(there.mtimeMs / 1000) !== Math.floor(facts.mtimeMs / 1000)) return false
  return told(to, () => told(from, () => haveSameBytes(from.at(name), to.at(free))))
}

function haveSameBytes(...paths: readonly [string, string]): boolean {
  const [one, other] = paths.map((path) => openSync(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0)))
  if (one === undefined || other === undefined) return false
  const [oneBytes, otherBytes] = [Buffer.allocUnsafe(COMPARED_BYTES), Buffer.allocUnsafe(COMPARED_BYTES)]
  try {
    for (;;) {
      const count = readSync(one, oneBytes)
      if (readSync(other, otherBytes) !== count) return false
      if (!oneBytes.subarray(0, count).equals(otherBytes.subarray(0, count))) return false
      if (count === 0) return true
    }
  } finally {
    for (const handle of [one, other]) closeSync(handle)
  }
}
