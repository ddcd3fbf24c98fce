import type { Readable } from 'node:stream'
import type { Config } from '../../runtime/config.ts'
import type { Log } from '../../runtime/log.ts'

/** What a command works with. */
export interface CommandContext {
  readonly config: Config
  readonly log: Log
  readonly input: Readable & { readonly isTTY?: boolean }
  /** A line of what was asked for, on standard output. */
  readonly print: (line: string) => void
  /** A line for the person at the terminal, on standard error. */
  readonly say: (line: string) => void
}

/** What a command line gives: options by name, and the words after the command. */
export interface Given {
  readonly options: Readonly<Record<string, string>>
  readonly operands: readonly string[]
}

/** A command beside `start`. */
export interface CommandDefinition {
  /** Such as `token create`. */
  readonly name: string
  readonly summary: string
  /** Names of the words that must follow. */
  readonly operands: readonly string[]
  /** What each option is given; those of `required` must be there. */
  readonly options: Readonly<Record<string, string>>
  readonly required: readonly string[]
  readonly run: (given: Given, context: CommandContext) => Promise<void>
}
