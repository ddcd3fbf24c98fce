/** The pattern for `ilike` that finds a text anywhere; its own wildcards are taken literally. */
export function anywhere(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
}
