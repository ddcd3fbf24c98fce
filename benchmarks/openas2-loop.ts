import { mkdir, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isOpenAs2Installed } from '../test/interop/openas2/installation.ts'
import { OpenAs2 } from '../test/interop/openas2/openas2.ts'
import { OWN_ALIAS, type OpenAs2Partnership } from '../test/interop/openas2/partnership.ts'
import { ediText } from './as2-prepared.ts'

/** One folder for a partner, whose files it sends one after the other: as its distribution is set up. */
const ALONE = 'alone'
/** As many folders for one partner as Waybill has deliveries under way. */
const ABREAST = 'abreast'
const LOOK_MS = 100
const TIME_LIMIT_MS = 10 * 60_000

/** Both companies in one OpenAS2, which sends to itself. */
export interface OpenAs2Loop {
  /** Sends files from one folder, and answers how many a second arrived, from the first to the last. */
  readonly alone: Run
  /** From several folders at once. */
  readonly abreast: Run
}

type Run = (name: string, messages: number, sizeBytes: number) => Promise<number>

/** Signed, encrypted and compressed as Waybill does it, with signed synchronous receipts; null where it is not installed. */
export async function startOpenAs2Loop(
  concurrency: number,
  running: AsyncDisposableStack,
): Promise<OpenAs2Loop | null> {
  if (!isOpenAs2Installed()) return null
  const server = await OpenAs2.start({
    tracking: true,
    certificates: {},
    partnerships: [partnership(ALONE, 1), partnership(ABREAST, concurrency)],
  })
  running.defer(() => server.stop())
  return {
    alone: (...run) => messagesPerSecond(server, { name: ALONE, outboxes: 1 }, ...run),
    abreast: (...run) => messagesPerSecond(server, { name: ABREAST, outboxes: concurrency }, ...run),
  }
}

function partnership(name: string, outboxes: number): OpenAs2Partnership {
  return {
    name,
    as2Id: `ACME-${name}`,
    partnerAs2Id: `GLOBEX-${name}`,
    partnerUrl: null,
    // Both companies have the same key.
    partnerCertificate: OWN_ALIAS,
    signature: 'sha256',
    encryption: 'aes256',
    compression: 'BeforeSigning',
    receipt: { signed: true, asynchronous: false },
    outboxes,
  }
}

async function messagesPerSecond(
  server: OpenAs2,
  from: { readonly name: string; readonly outboxes: number },
  name: string,
  messages: number,
  sizeBytes: number,
): Promise<number> {
  // Its folders bear the name of who receives.
  const inbox = server.inbox(`${from.name}-partner`)
  const drafts = join(server.draftFolder, `drafts-${from.name}-${name}`)
  await mkdir(drafts)
  const files = Array.from({ length: messages }, (_, index) => `${name}-${index}.edi`)
  for (const file of files) await writeFile(join(drafts, file), ediText(sizeBytes))
  for (const [index, file] of files.entries())
    await server.dropDraft(from.name, file, join(drafts, file), index % from.outboxes)
  const deadline = performance.now() + TIME_LIMIT_MS
  for (;;) {
    const arrived = (await readdir(inbox).catch(() => [])).filter((file) => file.startsWith(`${name}-`))
    if (arrived.length === messages) return rateOf(arrived.map((file) => join(inbox, file)))
    if (performance.now() > deadline)
      throw new Error(`${arrived.length} of ${messages} files arrived\n${(await server.log()).slice(-5_000)}`)
    await sleep(LOOK_MS)
  }
}

async function rateOf(files: readonly string[]): Promise<number> {
  const times = await Promise.all(files.map(async (file) => (await stat(file)).mtimeMs))
  return (files.length * 1000) / (Math.max(...times) - Math.min(...times))
}
