import { randomBytes } from 'node:crypto'
import type { Test } from 'tap'
import { digestOf, type MessageView } from '../site.ts'
import { algorithmsOf, bothWays, type Combination } from './combinations.ts'
import { Exchange, type Case } from './exchange.ts'

const PROCESSED = 'automatic-action/MDN-sent-automatically; processed'

/** A combination that both sides send with, and what is asserted of it: arrival, facts and receipts on both sides. */
export interface Row {
  /** Of the case. */
  readonly name: string
  /** The end of a sentence: «we send …». */
  readonly what: string
  readonly combination: Combination
  readonly more?: Partial<Case>
  readonly fileName?: string
  /** Where the file's name does not travel, why not. */
  readonly namelessBecause?: string
  /** Default both directions. */
  readonly only?: 'sent' | 'received'
  /** Default some kilobytes that compress, are binary and have line ends of every kind. */
  readonly content?: Buffer<ArrayBuffer>
}

/** Has both sides send at once, then a test for each row and direction waits for its end. */
export async function exchangeRows(t: Test, rows: readonly Row[]): Promise<void> {
  const cases = rows.map(({ name, combination, more }) => bothWays(name, combination, more))
  const exchange = await Exchange.start(t, cases)
  const started = await Promise.all(rows.map((each) => startRow(exchange, each)))
  for (const { row, ours, theirs } of started) {
    const but = row.namelessBecause === undefined ? '' : `, without its name: ${row.namelessBecause}`
    if (ours !== null)
      await t.test(`we send ${row.what}${but}`, async (t) => assertSent(t, exchange, row, ours))
    if (theirs !== null)
      await t.test(`OpenAS2 sends ${row.what}${but}`, async (t) => assertReceived(t, exchange, row, theirs))
  }
}

interface Sent {
  readonly id: string
  readonly content: Buffer
}

interface StartedRow {
  readonly row: Row
  readonly ours: Sent | null
  readonly theirs: Buffer | null
}

async function startRow(exchange: Exchange, row: Row): Promise<StartedRow> {
  const { name, only } = row
  const [content, theirs] = [contentOf(row, 'Waybill'), contentOf(row, 'OpenAS2')]
  const fileName = fileNameOf(row)
  const ours = only === 'received' ? null : { id: await exchange.send(name, fileName, content), content }
  if (only !== 'sent') await exchange.openAs2.drop(name, fileName, theirs)
  return { row, ours, theirs: only === 'sent' ? null : theirs }
}

const fileNameOf = ({ name, fileName = `${name}.edi` }: Row): string => fileName

function contentOf({ name, content }: Row, sender: string): Buffer<ArrayBuffer> {
  if (content !== undefined) return content
  const text = `${sender} sends ${name}\r\nbare line feed\nbare carriage return\rend\r\n`.repeat(50)
  return Buffer.concat([Buffer.from(text), randomBytes(2_000), Buffer.from('\r\n\r\n')])
}

async function assertSent(t: Test, exchange: Exchange, row: Row, { id, content }: Sent): Promise<void> {
  const message = await exchange.settled(id)
  if (!assertFacts(t, message, row)) return
  const taken = await exchange.takenByOpenAs2(row.name)
  if (row.namelessBecause === undefined) t.equal(taken.fileName, fileNameOf(row), 'the file keeps its name')
  t.equal(taken.digest, digestOf(content), 'the file is the same')
  await assertReceipt(t, exchange, row, message)
}

async function assertReceived(t: Test, exchange: Exchange, row: Row, content: Buffer): Promise<void> {
  const [message] = await exchange.settledFrom(row.name)
  if (message === undefined || !assertFacts(t, message, row)) return
  if (row.namelessBecause === undefined)
    t.equal(message.file_name, fileNameOf(row), 'the file keeps its name')
  const written = await exchange.written(row.name, message.file_name)
  t.equal(digestOf(written), digestOf(content), 'the file is the same')
  await assertReceipt(t, exchange, row, message)
}

/** Whether the message is delivered, and as it was to be. */
function assertFacts(t: Test, message: MessageView, { combination }: Row): boolean {
  const { signature, encryption } = algorithmsOf(combination)
  if (!t.equal(message.status, 'Delivered', 'the message is delivered')) {
    t.comment(JSON.stringify(message, null, 1))
    return false
  }
  return t.match(message.protocols.as2, {
    signed: signature !== null,
    encrypted: encryption !== null,
    compressed: combination.compression !== undefined,
    algorithms: { signature, encryption },
  })
}

/** Both sides have the receipt, and who sent the message has compared its MIC. */
async function assertReceipt(
  t: Test,
  exchange: Exchange,
  { combination: { receipt: wish } }: Row,
  message: MessageView,
): Promise<void> {
  const { protocols } = await exchange.withReceipt(message.id)
  const { receipt = null, message_id = '', mic_algorithm } = protocols.as2 ?? {}
  if (wish === undefined) {
    t.equal(receipt, null, 'nobody asked for a receipt')
    return
  }
  const isOurs = message.direction === 'outbound'
  t.match(receipt, {
    mode: wish.endsWith('asynchronous') ? 'Async' : 'Sync',
    signed: wish.startsWith('signed'),
    state: isOurs ? 'received' : 'sent',
    disposition: PROCESSED,
  })
  // OpenAS2 keeps a receipt for its own message only when the MIC in it is the one that it expects.
  const record = await exchange.receiptRecord(message_id)
  t.equal(record.disposition, PROCESSED, 'OpenAS2 has the receipt')
  if (isOurs && wish.startsWith('unsigned')) {
    t.equal(record.mic, null, 'OpenAS2 puts no MIC into a receipt when no digest was named')
    return
  }
  const [value, algorithm] = record.mic?.split(/,\s*/) ?? []
  t.equal(value, receipt?.mic, 'both have the same MIC')
  t.equal(algorithm?.toUpperCase().replaceAll('-', ''), mic_algorithm)
  if (isOurs) t.equal(receipt?.mic_matches, true, 'it is the one that we expect')
}
