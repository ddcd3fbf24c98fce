/** One receipt as OpenAS2 keeps it, made or taken. It keeps only those that it took as good, and all that it made. */
export interface ReceiptRecord {
  /** The party that sent the receipt. */
  readonly as2From: string
  readonly as2To: string
  readonly originalMessageId: string
  readonly disposition: string
  /** As in the receipt: value, comma, digest; null when it has none. */
  readonly mic: string | null
}

/** Reads a record: lines of headers, an empty one, lines of attributes, then the text for people. */
export function parseReceiptRecord(text: string): ReceiptRecord {
  const of = (name: string): string | null =>
    new RegExp(`^${name}:[ \\t]*(.*)$`, 'im').exec(text)?.[1]?.trim() ?? null
  const needed = (name: string): string => {
    const value = of(name)
    if (value === null) throw new Error(`No ${name} in a record of OpenAS2:\n${text}`)
    return value
  }
  const mic = of('MIC')
  return {
    as2From: unquoted(needed('AS2-From')),
    as2To: unquoted(needed('AS2-To')),
    originalMessageId: needed('ORIGINAL_MESSAGE_ID'),
    disposition: needed('DISPOSITION'),
    mic: mic === null || mic === '' || mic === 'null' ? null : mic,
  }
}

const unquoted = (name: string): string => name.replace(/^"(.*)"$/, '$1')
