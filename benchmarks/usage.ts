import { readFile, readdir } from 'node:fs/promises'

/** Ticks of a second in /proc: USER_HZ is 100 on every Linux. */
const TICKS_PER_SECOND = 100

export interface Usage {
  readonly cpuSeconds: number
  /** Largest resident memory of the process itself so far. */
  readonly peakBytes: number
}

/** What a process and everything that it started have used (Linux). */
export async function usageOf(pid: number): Promise<Usage> {
  let cpuSeconds = 0
  for (const member of await family(pid)) cpuSeconds += await cpuOf(member)
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  const peakBytes = Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024
  return { cpuSeconds, peakBytes }
}

/** A process and everything that it started, and so on. */
export async function family(root: number): Promise<number[]> {
  const parents = new Map<number, number>()
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    const fields = await statFields(Number(entry))
    if (fields !== null) parents.set(Number(entry), Number(fields[1]))
  }
  const members = [root]
  for (const member of members) {
    for (const [pid, parent] of parents) if (parent === member) members.push(pid)
  }
  return members
}

/** User and system time, of children that have ended too: a database ends a process with each connection. */
async function cpuOf(pid: number): Promise<number> {
  const fields = await statFields(pid)
  if (fields === null) return 0
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_SECOND
}

/** The fields after the process's name, which may hold anything; null when it has ended. */
async function statFields(pid: number): Promise<string[] | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  return text === null ? null : text.slice(text.lastIndexOf(')') + 2).split(' ')
}
