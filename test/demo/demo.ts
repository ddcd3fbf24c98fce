import { readFileSync } from 'node:fs'
import { access, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { setUpLoop, startLoop, type As2Loop } from '../support/as2-loop.ts'
import { Waybill } from '../support/waybill.ts'

/**
 * Shows one invoice on its way: out of a folder, over AS2 to a partner, into the partner's folder, and the receipt
 * back. Everything lies in `demo/` of the working directory, which is made anew each time.
 */
const DIRECTORY = resolve('demo')
const MARKER = join(DIRECTORY, '.waybill-demo')
const INVOICE = new URL('invoice.edi', import.meta.url)
const NAME = 'invoice-2026-0042.edi'
const LOOK_MS = 50
const TIME_LIMIT_MS = 30_000

interface Message {
  readonly id: string
  readonly direction: 'inbound' | 'outbound'
  readonly status: string
  readonly from: string
  readonly to: string
  readonly payloads: Readonly<Record<string, unknown>>
  readonly history: readonly Line[]
  readonly protocols: { readonly as2?: As2View }
}

interface As2View {
  readonly message_id: string
  readonly algorithms: { readonly signature: string; readonly encryption: string }
  readonly mic: string
  readonly receipt: {
    readonly disposition: string
    readonly mic: string
    readonly mic_matches: boolean
  } | null
}

interface Line {
  readonly id: number
  readonly created_at: string
  readonly kind: string
  readonly new_status?: string
  readonly target?: string
  readonly new_state?: string
  readonly text?: string
}

const began = performance.now()
let ending = false
const say = (text = ''): void =>
  console.log(text === '' ? '' : `${((performance.now() - began) / 1000).toFixed(2).padStart(6)} s  ${text}`)

await emptyDirectory()
say('starting Waybill with a database of its own')
const waybill = await Waybill.start({ directory: DIRECTORY })
process.on('SIGINT', () => void end())
process.on('SIGTERM', () => void end())
say(`Waybill listens on ${waybill.url}`)

const loop = await setUpLoop(waybill, { directory: DIRECTORY })
say('set up over the REST API: Acme and Globex, their certificates, AS2 profiles, two routes, four instances')
await startLoop(waybill)
say('started: file-poller, as2-sender, as2-receiver, file-writer')

await dropInvoice(loop)
say(`dropped ${join(relative('.', loop.outbox), NAME)}`)
await follow()
await compare(loop)
explain(loop)

async function emptyDirectory(): Promise<void> {
  const there = await access(DIRECTORY).then(
    () => true,
    () => false,
  )
  const ours = await access(MARKER).then(
    () => true,
    () => false,
  )
  if (there && !ours) {
    console.error(`${DIRECTORY} is there and was not made by this demo; move it away first`)
    process.exit(1)
  }
  await rm(DIRECTORY, { recursive: true, force: true })
  await mkdir(DIRECTORY)
  await writeFile(MARKER, '')
}

/** Under a name that the poller does not look at, then renamed: the usual way to hand over a complete file. */
async function dropInvoice({ outbox }: As2Loop): Promise<void> {
  await mkdir(outbox, { recursive: true })
  const draft = join(outbox, `.${NAME}`)
  await writeFile(draft, readFileSync(INVOICE))
  await rename(draft, join(outbox, NAME))
}

/** Prints each history line of both messages as it appears, until both are delivered. */
async function follow(): Promise<void> {
  const shown = new Set<number>()
  const deadline = performance.now() + TIME_LIMIT_MS
  for (;;) {
    const { messages } = await waybill.request<{ messages: Message[] }>('GET', '/messages')
    const lines = messages.flatMap((message) => message.history.map((line) => ({ message, line })))
    for (const { message, line } of lines.toSorted((one, other) => one.line.id - other.line.id)) {
      if (!shown.has(line.id)) say(describe(message, line))
      shown.add(line.id)
    }
    if (messages.length === 2 && messages.every(({ status }) => status === 'Delivered')) return
    if (performance.now() > deadline) {
      console.error('The invoice did not arrive in time.', ...waybill.output)
      await waybill.stop()
      process.exit(1)
    }
    await sleep(LOOK_MS)
  }
}

function describe({ direction, from, to, protocols }: Message, line: Line): string {
  const who = `${direction.padEnd(8)} ${from} → ${to}  `
  switch (line.kind) {
    case 'status_changed':
      return `${who} ${line.new_status}${line.text === undefined ? '' : `: ${line.text}`}`
    case 'delivery_changed':
      return `${who} delivery by ${line.target}: ${line.new_state}`
    case 'mdn_received': {
      const receipt = protocols.as2?.receipt
      const mic = receipt?.mic_matches === true ? `, its MIC matches: ${receipt.mic}` : ''
      return `${who} signed receipt: ${line.text}${mic}`
    }
    default:
      return `${who} ${line.kind} ${line.text ?? ''}`
  }
}

async function compare({ inbox }: As2Loop): Promise<void> {
  const sent = await readFile(INVOICE)
  const arrived = await readFile(join(inbox, NAME))
  if (!sent.equals(arrived)) throw new Error('The file that arrived is not the file that was sent')
  say(`${join(relative('.', inbox), NAME)} is there, byte for byte the same (${arrived.length} bytes)`)
}

function explain({ outbox, inbox, processed }: As2Loop): void {
  const rows = [
    ['drop more files into', relative('.', outbox)],
    ['they arrive in', relative('.', inbox)],
    ['taken files lie in', relative('.', processed)],
    ['payloads of each message', join(relative('.', DIRECTORY), 'payloads', '<message id>')],
    ['database and key', join(relative('.', DIRECTORY), 'data')],
    ['messages', `curl ${waybill.url}/api/v1/messages`],
    ['instances', `curl ${waybill.url}/api/v1/services`],
    ['API description', `curl ${waybill.url}/api/v1/openapi.yaml`],
  ] as const
  console.log()
  for (const [what, where] of rows) console.log(`${what.padEnd(26)} ${where}`)
  console.log('\nRunning until stopped (Ctrl+C).')
}

/** Ctrl+C under npm arrives twice; asking twice would end the service at once. */
async function end(): Promise<void> {
  if (ending) return
  ending = true
  process.exit((await waybill.stop()) ?? 1)
}
