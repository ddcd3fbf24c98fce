import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Teardown } from './database.ts'

/** The identity of an ordinary user, for tests that root runs: `nobody` on Linux. */
export const ORDINARY_USER = 65_534
export const isRoot = process.geteuid?.() === 0

const compiled = process.env['NODE_COMPILE_CACHE']
/**
 * Where the processes of tests find what Node.js has compiled of our modules before, instead of each doing it again: that is
 * a fifth of what they take. Under tap alone, see .taprc, which can name it only from the project's root on.
 */
export const COMPILED: Readonly<Record<string, string>> =
  compiled === undefined ? {} : { NODE_COMPILE_CACHE: resolve(compiled) }
// Processes that are started in other directories inherit it, too.
Object.assign(process.env, COMPILED)

/** Whether an ordinary user can run our node and read the project. */
export function ordinaryUserCanRun(): boolean {
  const file = fileURLToPath(import.meta.url)
  const { status } = spawnSync(process.execPath, ['--check', file], {
    uid: ORDINARY_USER,
    gid: ORDINARY_USER,
    cwd: '/',
  })
  return status === 0
}

/** A directory that is gone after the test; as mkdtemp makes it, only its owner may enter it. */
export async function temporaryDirectory(t: Teardown, owner?: number): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'waybill-t-'))
  await chmod(path, 0o700)
  if (owner !== undefined) await chown(path, owner, owner)
  // Tried again where a process that just ends still writes into it.
  t.teardown(() => rm(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
  return path
}

/**
 * The command that runs a script with our node, without the hooks that tap adds to every child: what outlives the
 * test or runs as another user must not write tap's records.
 */
export function plainNode(script: string, args: readonly string[]): readonly [string, string[]] {
  return plainCommand(process.execPath, [fileURLToPath(new URL(script, import.meta.url)), ...args])
}

/** A command without what tap puts into the environment of every child: its loaders are not what we test. */
export function plainCommand(command: string, args: readonly string[]): readonly [string, string[]] {
  return process.platform === 'win32'
    ? [command, [...args]]
    : ['env', ['-u', 'NODE_OPTIONS', command, ...args]]
}

export interface Script {
  readonly child: ChildProcess
  /** The next line of its output; undefined when it ended. */
  readonly line: () => Promise<string | undefined>
  readonly kill: (signal: NodeJS.Signals) => Promise<void>
}

/** Runs a script of this folder, as another user if asked; it is killed at the end of the test. */
export function runScript(t: Teardown, name: string, args: readonly string[], user?: number): Script {
  const identity = user === undefined ? {} : { uid: user, gid: user }
  const child = spawn(...plainNode(name, args), {
    ...identity,
    cwd: '/',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const kill = async (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill(signal)
    await exit
  }
  t.teardown(() => kill('SIGKILL'))
  return {
    child,
    kill,
    line: async () => {
      const next = await lines.next()
      return next.done === true ? undefined : next.value
    },
  }
}

/** A process that has ended and that nobody has asked for its result yet (a zombie) is not alive. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return process.platform !== 'linux' || !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** Waits until something holds; fails after a limit that no busy machine needs. */
export async function until(holds: () => boolean | Promise<boolean>, limitMs = 120_000): Promise<void> {
  const deadline = Date.now() + limitMs
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`It did not come to hold within ${limitMs} ms`)
    await sleep(10)
  }
}
