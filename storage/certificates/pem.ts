/** A block of PEM (RFC 7468), or of the older form with headers (RFC 1421). */
export interface PemBlock {
  /** `CERTIFICATE`, `PRIVATE KEY` and so on. */
  readonly label: string
  readonly bytes: Buffer
  /** From the first dash to the last. */
  readonly text: string
  /** Whether headers say that the content is encrypted. */
  readonly encrypted: boolean
}

const MOST_BLOCKS = 1000
const BEGIN = /-----BEGIN ([A-Z0-9 ]{1,40})-----/g

export function looksLikePem(bytes: Buffer): boolean {
  return bytes.includes('-----BEGIN ')
}

/** The blocks in order; text around them is ignored. Throws an Error for one without end or with other content. */
export function readPem(text: string): readonly PemBlock[] {
  const blocks: PemBlock[] = []
  for (const begin of text.matchAll(BEGIN)) {
    const [line, label = ''] = begin
    const end = `-----END ${label}-----`
    const from = begin.index + line.length
    const to = text.indexOf(end, from)
    if (to === -1) throw new Error(`the block ${label} has no end`)
    blocks.push(readBlock(label, text.slice(from, to), text.slice(begin.index, to + end.length)))
    if (blocks.length > MOST_BLOCKS) throw new Error('it has too many blocks')
  }
  return blocks
}

function readBlock(label: string, inner: string, text: string): PemBlock {
  const lines = inner.split(/\r\n|\r|\n/).map((line) => line.trim())
  const body = lines.filter((line) => !line.includes(':')).join('')
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(body)) throw new Error(`the block ${label} is not base64`)
  const encrypted = lines.some((line) => /^Proc-Type:.*ENCRYPTED/i.test(line))
  return { label, bytes: Buffer.from(body, 'base64'), text, encrypted }
}

/** PEM with lines of 64 characters. */
export function writePem(label: string, bytes: Uint8Array): string {
  const base64 = Buffer.from(bytes).toString('base64')
  const lines = base64.match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}
