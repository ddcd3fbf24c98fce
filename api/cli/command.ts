import { parseArgs } from 'node:util'

/** What the command line asks for. */
export type Command =
  | { readonly kind: 'start' }
  | { readonly kind: 'local-storage'; readonly directory: string }
  | { readonly kind: 'version' }
  | { readonly kind: 'help' }
  | { readonly kind: 'mistake'; readonly message: string }

export const HELP = `Usage: waybill [command]

Commands:
  start                               run the server (the default)
  settings storage local <directory>  store payloads in a directory from the next start on; for a
                                      server that does not start with the storage of its settings

Options:
  --version                           print the version
  --help                              print this text

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
    return commandOf(positionals)
  } catch (error) {
    return { kind: 'mistake', message: error instanceof Error ? error.message : String(error) }
  }
}

function commandOf(words: readonly string[]): Command {
  const [name = 'start', ...rest] = words
  if (name === 'start' && rest.length === 0) return { kind: 'start' }
  const [subject, backend, directory, ...more] = rest
  if (name === 'settings' && subject === 'storage' && backend === 'local' && more.length === 0) {
    return directory === undefined
      ? { kind: 'mistake', message: 'The directory is missing' }
      : { kind: 'local-storage', directory }
  }
  return { kind: 'mistake', message: `Unknown command: ${words.join(' ')}` }
}
