import { readFile } from 'node:fs/promises'
import { family } from './usage.ts'

const LOOK_MS = 20

/** Resident memory of a process and everything that it started, in bytes; what the kernel caches of files is not in it. */
export async function residentBytes(pid: number): Promise<number> {
  let sum = 0
  for (const member of await family(pid)) {
    const status = await readFile(`/proc/${member}/status`, 'utf8').catch(() => '')
    sum += Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024
  }
  return sum
}

/** Looks at it all the time, until asked for the most that there was. */
export function watchMemory(pid: number): { readonly peakBytes: () => Promise<number> } {
  let peak = 0
  const enough = new AbortController()
  const look = async (): Promise<void> => {
    while (!enough.signal.aborted) {
      peak = Math.max(peak, await residentBytes(pid))
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }
  const looking = look()
  return {
    peakBytes: async () => {
      enough.abort()
      await looking
      return peak
    },
  }
}
