import { parseArgs } from 'node:util'
import type { CommandContext, CommandDefinition } from './context.ts'
import { localStorageCommand } from './local-storage.ts'
import { secretCommands } from './secret.ts'
import { tokenCommands } from './token.ts'
import { userCommands } from './user.ts'

/** What the command line asks for. */
export type Command =
  | { readonly kind: 'start' }
  | { readonly kind: 'version' }
  | { readonly kind: 'help' }
  | { readonly kind: 'mistake'; readonly message: string }
  | { readonly kind: 'task'; readonly run: (context: CommandContext) => Promise<void> }

const COMMANDS: readonly CommandDefinition[] = [
  ...tokenCommands,
  ...userCommands,
  ...secretCommands,
  localStorageCommand,
]

export const HELP = `Usage: waybill [command]

Commands:
  start
      run the server (the default)
${COMMANDS.map((command) => `  ${usageOf(command)}\n      ${command.summary}`).join('\n')}

Options:
  --version  print the version
  --help     print this text

Settings come from the environment; README.md lists them. The commands work on the database of the settings, whether
the server runs or not.`

export function parseCommand(args: readonly string[]): Command {
  const command = COMMANDS.find(({ name }) => startsWith(args, name.split(' ')))
  try {
    return command === undefined ? parseServer(args) : parseTask(command, args)
  } catch (error) {
    return { kind: 'mistake', message: error instanceof Error ? error.message : String(error) }
  }
}

function parseServer(args: readonly string[]): Command {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { version: { type: 'boolean', short: 'v' }, help: { type: 'boolean', short: 'h' } },
  })
  if (values.help === true) return { kind: 'help' }
  if (values.version === true) return { kind: 'version' }
  const [name = 'start', ...rest] = positionals
  if (name !== 'start' || rest.length > 0)
    return { kind: 'mistake', message: `Unknown command: ${positionals.join(' ')}` }
  return { kind: 'start' }
}

function parseTask(command: CommandDefinition, args: readonly string[]): Command {
  const words = command.name.split(' ').length
  const { values, positionals } = parseArgs({
    args: args.slice(words),
    allowPositionals: true,
    options: {
      help: { type: 'boolean', short: 'h' },
      ...Object.fromEntries(Object.keys(command.options).map((name) => [name, { type: 'string' } as const])),
    },
  })
  if (values.help === true) return { kind: 'help' }
  const options = Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
  )
  const missing = command.required.filter((name) => !(name in options))
  if (missing.length > 0 || positionals.length !== command.operands.length) {
    return { kind: 'mistake', message: `This command takes: waybill ${usageOf(command)}` }
  }
  return { kind: 'task', run: (context) => command.run({ options, operands: positionals }, context) }
}

function startsWith(args: readonly string[], words: readonly string[]): boolean {
  return words.every((word, at) => args[at] === word)
}

function usageOf({ name, operands, options, required }: CommandDefinition): string {
  const given = Object.entries(options).map(([option, value]) => {
    const text = `--${option} <${value}>`
    return required.includes(option) ? text : `[${text}]`
  })
  return [name, ...operands.map((operand) => `<${operand}>`), ...given].join(' ')
}
