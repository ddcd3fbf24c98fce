/** Where in the bytes of its batch a line is. */
export interface PlacedLine {
  readonly id: number
  readonly messageId: string
  readonly end: number
}

/** Lines that follow each other, as the bytes that are sent. Readers share them: they are never changed. */
export interface LineBatch {
  /** All lines that there are after this id, ... */
  readonly after: number
  /** ... up to this one. */
  readonly upTo: number
  readonly lines: readonly PlacedLine[]
  readonly bytes: Buffer
}

/** A line as it is sent. */
export interface EncodedLine {
  readonly id: number
  readonly messageId: string
  readonly text: string
}

const LARGEST_BATCH_BYTES = 64 * 1024

/**
 * The newest lines, held once for all readers and bounded in bytes. A reader is a position in them: it holds nothing,
 * however slow it is, and one that falls behind the oldest has missed lines.
 */
export class RecentLines {
  readonly #mostBytes: number
  readonly #batches: LineBatch[] = []
  #bytes = 0
  #from: number
  #upTo: number

  /** @param from the id after which lines are held. */
  constructor(from: number, mostBytes: number) {
    this.#from = from
    this.#upTo = from
    this.#mostBytes = mostBytes
  }

  /** All lines up to this id have been added. */
  get upTo(): number {
    return this.#upTo
  }

  /** Adds all lines that there are up to an id. */
  add(lines: readonly EncodedLine[], upTo: number): void {
    let open: EncodedLine[] = []
    let size = 0
    for (const line of lines) {
      if (open.length > 0 && size + line.text.length > LARGEST_BATCH_BYTES) {
        this.#addBatch(open, open.at(-1)?.id ?? upTo)
        open = []
        size = 0
      }
      open.push(line)
      size += line.text.length
    }
    if (open.length > 0) this.#addBatch(open, upTo)
    else this.#upTo = upTo
    this.#forgetOldest()
  }

  /** The batch that has what follows a position; `none` when nothing does yet, `missed` when it is held no more. */
  following(position: number): LineBatch | 'none' | 'missed' {
    if (position < this.#from) return 'missed'
    let low = 0
    let high = this.#batches.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#batches[middle]?.upTo ?? 0) > position) high = middle
      else low = middle + 1
    }
    return this.#batches[low] ?? 'none'
  }

  #addBatch(lines: readonly EncodedLine[], upTo: number): void {
    let end = 0
    const placed = lines.map(({ id, messageId, text }) => {
      end += Buffer.byteLength(text)
      return { id, messageId, end }
    })
    const bytes = Buffer.from(lines.map(({ text }) => text).join(''))
    this.#batches.push({ after: this.#upTo, upTo, lines: placed, bytes })
    this.#upTo = upTo
    this.#bytes += bytes.length + placed.length * BYTES_OF_PLACE
  }

  #forgetOldest(): void {
    while (this.#bytes > this.#mostBytes && this.#batches.length > 1) {
      const oldest = this.#batches.shift()
      if (oldest === undefined) return
      this.#bytes -= oldest.bytes.length + oldest.lines.length * BYTES_OF_PLACE
      this.#from = oldest.upTo
    }
  }
}

/** About what a line takes in memory beside its bytes. */
const BYTES_OF_PLACE = 150

/** The bytes of those lines of a batch that are wanted; the batch's own where they are all. */
export function bytesOf(batch: LineBatch, isWanted: (line: PlacedLine) => boolean): Buffer {
  const parts: Buffer[] = []
  let begin = 0
  /** Where the lines begin that are wanted and not yet taken; null within unwanted ones. */
  let open: number | null = null
  for (const line of batch.lines) {
    if (isWanted(line)) open ??= begin
    else if (open !== null) {
      parts.push(batch.bytes.subarray(open, begin))
      open = null
    }
    begin = line.end
  }
  if (open !== null) parts.push(batch.bytes.subarray(open, begin))
  const [only] = parts
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts)
}
