import { parseArgs } from 'node:util'

/** What the command line asks for. */
export type Command =
  | { readonly kind: 'start' }
  | { readonly kind: 'version' }
  | { readonly kind: 'help' }
  | { readonly kind: 'mistake'; readonly message: string }

export const HELP = `Usage: waybill [command]

Commands:
  start      run the server (the default)

Options:
  --version  print the version
  --help     print this text

Settings come from the environment; README.md lists them.`

export function parseCommand(args: readonly string[]): Command {
  try {
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
  } catch (error) {
    return { kind: 'mistake', message: error instanceof Error ? error.message : String(error) }
  }
}
