import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { family } from './usage.ts'

const LOOK_MS = 20
/** Looks by which new processes are found: each goes through all processes of the machine, which is work. */
const FAMILY_EVERY = 50

/** Resident memory of a process and everything that it started, in bytes; what the kernel caches of files is not in it. */
export async function residentBytes(pid: number): Promise<number> {
  return residentOf(await family(pid))
}

function residentOf(members: readonly number[]): number {
  return members.reduce((sum, member) => {
    const kilobytes = /VmRSS:\s+(\d+) kB/.exec(statusOf(member))?.[1] ?? 0
    return sum + Number(kilobytes) * 1024
  }, 0)
}

/** Empty when the process has ended. */
function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}

/**
 * Looks at it all the time, until asked for the most that there was. The looks take one percent of a processor or two,
 * which whoever is watched goes without.
 */
export function watchMemory(pid: number, lookMs = LOOK_MS): { readonly peakBytes: () => Promise<number> } {
  let peak = 0
  const enough = new AbortController()
  const look = async (): Promise<void> => {
    let members: readonly number[] = []
    for (let looks = 0; !enough.signal.aborted; looks += 1) {
      if (looks % FAMILY_EVERY === 0) members = await family(pid)
      peak = Math.max(peak, residentOf(members))
      await sleep(lookMs)
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
