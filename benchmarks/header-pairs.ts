/** Names and values as Node.js gives them, one after the other, in pairs. */
export function pairsOf(raw: readonly string[]): [string, string][] {
  return raw.flatMap((name, index): [string, string][] =>
    index % 2 === 0 ? [[name, raw[index + 1] ?? '']] : [],
  )
}
