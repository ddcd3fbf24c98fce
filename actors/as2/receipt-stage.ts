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
  const headers = stage
    .subarray(0, end)
    .toString('latin1')
    .split('\r\n')
    .map((line): [string, string] => {
      const colon = line.indexOf(': ')
      return [line.slice(0, colon), line.slice(colon + 2)]
    })
  return { headers, body: stage.subarray(end + END_OF_HEADERS.length) }
}
