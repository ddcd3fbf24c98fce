import { numbered } from './names.ts'

/**
 * The paths of the files of one message. Two files of equal names are two files, whatever is to be done with what is
 * there already: the second is numbered. Names that differ in case alone are equal to some file systems. The same names
 * in the same order always get the same paths, so that a repeat finds what it has written before.
 */
export class DistinctPaths {
  readonly #taken = new Set<string>()

  next(path: string): string {
    const cut = path.lastIndexOf('/') + 1
    const [directory, name] = [path.slice(0, cut), path.slice(cut)]
    let distinct = path
    for (let number = 2; this.#taken.has(keyOf(distinct)); number += 1)
      distinct = directory + numbered(name, number)
    this.#taken.add(keyOf(distinct))
    return distinct
  }
}

function keyOf(path: string): string {
  return path.normalize('NFC').toLowerCase()
}
