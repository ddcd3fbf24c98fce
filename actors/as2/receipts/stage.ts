/**
 * The `receipt` stage holds a receipt as it travelled: its headers, an empty line and its body, so that it can be
 * given out as a file and sent again byte for byte. The headers are ours to choose; the body is covered by a
 * signature and is never made anew.
 */

type Headers = ReadonlyArray<readonly [string, string]>

const END_OF_HEADERS = Buffer.from('\r\n\r\n')

export function toReceiptStage(headers: Headers, body: Buffer): Buffer {
  const lines = headers.map(([name, value]) => `${name}: ${value}`).join('\r\n')
  return Buffer.concat([Buffer.from(lines, 'latin1'), END_OF_HEADERS, body])
}

export function fromReceiptStage(stage: Buffer): { headers: [string, string][]; body: Buffer } {
  const end = stage.indexOf(END_OF_HEADERS)
  if (end < 0) throw new Error('The stored receipt has no end of headers')
  return {
    headers: fromHeaderStage(stage.subarray(0, end)),
    body: stage.subarray(end + END_OF_HEADERS.length),
  }
}

/** The stage `headers` of a message that came in holds such lines, too. */
export function fromHeaderStage(lines: Buffer): [string, string][] {
  return lines
    .toString('latin1')
    .split('\r\n')
    .filter((line) => line !== '')
    .map((line): [string, string] => {
      const colon = line.indexOf(': ')
      return [line.slice(0, colon), line.slice(colon + 2)]
    })
}
