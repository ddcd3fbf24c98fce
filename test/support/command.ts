import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { parseCommand } from '../../api/cli/command.ts'
import { parseConfig } from '../../runtime/config.ts'
import { describeFailure, OperatorError, WaybillError } from '../../runtime/errors.ts'
import { createLog } from '../../runtime/log.ts'
import { COMPILED, plainCommand } from './processes.ts'

const COMMAND = fileURLToPath(new URL('../../bin/waybill.js', import.meta.url))

export interface CommandOptions {
  /** The working directory, with `data` in it. */
  readonly directory: string
  readonly env?: Readonly<Record<string, string>>
  /** Standard input. */
  readonly input?: string
}

export interface CommandResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** The command `waybill` as an operator runs it; answers when it has ended. */
export async function waybill(args: readonly string[], options: CommandOptions): Promise<CommandResult> {
  const { directory, env = {}, input = '' } = options
  const child = spawn(...plainCommand(process.execPath, [COMMAND, ...args]), {
    cwd: directory,
    env: { PATH: process.env['PATH'], DATA_DIRECTORY: join(directory, 'data'), ...COMPILED, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  // One that reads no input may have ended before it is written.
  child.stdin.once('error', () => undefined)
  child.stdin.end(input)
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ])
  return { code, stdout, stderr }
}

/** The same within this process, without the start of another one. */
export async function waybillHere(args: readonly string[], options: CommandOptions): Promise<CommandResult> {
  const { directory, env = {}, input = '' } = options
  const stdout: string[] = []
  const stderr: string[] = []
  const command = parseCommand(args)
  if (command.kind !== 'task') throw new Error(`${args.join(' ')} is a ${command.kind}`)
  const context = {
    config: parseConfig({ DATA_DIRECTORY: join(directory, 'data'), ...env }),
    log: createLog('silent'),
    input: Readable.from(input === '' ? [] : [Buffer.from(input)]),
    print: (line: string) => void stdout.push(`${line}\n`),
    say: (line: string) => void stderr.push(`${line}\n`),
  }
  const code = await command.run(context).then(
    () => 0,
    (thrown: unknown) => {
      if (!(thrown instanceof OperatorError) && !(thrown instanceof WaybillError)) throw thrown
      stderr.push(`waybill: ${describeFailure(thrown)}\n`)
      return 1
    },
  )
  return { code, stdout: stdout.join(''), stderr: stderr.join('') }
}
