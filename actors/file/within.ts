import { isAbsolute, relative, sep } from 'node:path'

/** Whether an absolute path is another one or lies below it. */
export function isWithin(path: string, other: string): boolean {
  const way = relative(other, path)
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)
}
