import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, open, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { readReceipt } from '../actors/as2/protocol/receipt.ts'
import { createLog } from '../runtime/log.ts'
import { startEmbedded } from '../storage/postgres/embedded.ts'
import { setUpLoop, startLoop, type As2Loop } from '../test/support/as2-loop.ts'
import { Waybill } from '../test/support/waybill.ts'
import type { PeerFigures, PeerRun } from './as2-large-peer.ts'
import { startGenerator, type Generator } from './generator.ts'
import { residentBytes, watchMemory } from './memory.ts'
import type { Figures, ScenarioOptions } from './scenario.ts'

const MIB = 1024 * 1024
const MOST_MEMORY_MB = 200
const LEAST_OF_OPENSSL = 0.4
const IDLE_MS = 3_000
const LOOK_MS = 100
const TIME_LIMIT_MS = 30 * 60_000
const FILE = 'large.edi'

interface Message {
  readonly id: string
  readonly status: string
  readonly direction: 'inbound' | 'outbound'
  readonly protocols: { readonly as2?: { readonly mic: string } }
  readonly history: readonly {
    readonly created_at: string
    readonly kind: string
    readonly new_state?: string
    readonly text?: string
  }[]
}

interface Site {
  readonly directory: string
  readonly waybill: Waybill
  readonly loop: As2Loop
  readonly peer: Generator<PeerRun, PeerFigures>
  readonly bytes: number
  /** Of the content. */
  readonly sha256: string
}

/**
 * One message of 2 GB each way, signed and encrypted (AES-256-CBC), without compression: a file through poller and sender
 * to a partner that keeps the body, and that body through receiver and writer to a file, which must be the first one. The
 * memory is that of Waybill and everything that it started but PostgreSQL, against what it was before the first message.
 * The speed of sending is that from claim to settlement, of receiving from the first byte to the receipt; of openssl, that
 * of decrypting the same content from file to file and of hashing it, one after the other.
 */
export async function as2Large(options: ScenarioOptions): Promise<Figures> {
  const { megabytes = 2_048 } = options
  await using running = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'waybill-bench-'))
  running.defer(() => rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
  const server = await startEmbedded({ directory: join(directory, 'database'), log: createLog('silent') })
  running.defer(() => server.stop())
  const waybill = await Waybill.start({ directory, env: { DATABASE_URL: server.url } })
  running.defer(async () => void (await waybill.stop()))
  const loop = await setUpLoop(waybill, { directory })
  const { hostname, port } = new URL(loop.receiverUrl)
  const bytes = megabytes * MIB
  await waybill.request('PUT', '/plugins/configs/as2-receiver/receiver', {
    host: hostname,
    port: Number(port),
    max_message_bytes: 2 * bytes,
  })
  await startLoop(waybill)
  const peer = startGenerator<PeerRun, PeerFigures>(new URL('./as2-large-peer.ts', import.meta.url), running)
  const sha256 = await makeFile(join(directory, FILE), bytes)
  const site = { directory, waybill, loop, peer, bytes, sha256 }

  await sleep(IDLE_MS)
  const idleBytes = await residentBytes(waybill.pid)
  const sending = watchMemory(waybill.pid)
  const sent = await send(site)
  const sendingPeak = await sending.peakBytes()
  const receiving = watchMemory(waybill.pid)
  const received = await receive(site, sent.captured, sent.mic)
  const receivingPeak = await receiving.peakBytes()
  const openssl = await opensslSeconds(site)
  return judged({
    bytes,
    send: sent.seconds,
    receive: received,
    ...openssl,
    idleMb: idleBytes / MIB,
    sendingMb: (sendingPeak - idleBytes) / MIB,
    receivingMb: (receivingPeak - idleBytes) / MIB,
  })
}

interface Measured {
  readonly bytes: number
  readonly send: number
  readonly receive: number
  readonly decrypt: number
  readonly hash: number
  readonly idleMb: number
  readonly sendingMb: number
  readonly receivingMb: number
}

function judged(measured: Measured): Figures {
  const { bytes, send: sent, receive: received, decrypt, hash, idleMb, sendingMb, receivingMb } = measured
  const rate = (seconds: number): number => bytes / MIB / seconds
  const openssl = rate(decrypt + hash)
  const figures = {
    sending_mb_per_second: rate(sent),
    receiving_mb_per_second: rate(received),
    openssl_decrypting_mb_per_second: rate(decrypt),
    openssl_hashing_mb_per_second: rate(hash),
    openssl_mb_per_second: openssl,
    sending_share_of_openssl: rate(sent) / openssl,
    receiving_share_of_openssl: rate(received) / openssl,
    idle_memory_mb: idleMb,
    sending_more_memory_mb: sendingMb,
    receiving_more_memory_mb: receivingMb,
  }
  const failures: string[] = []
  for (const way of ['sending', 'receiving'] as const) {
    const share = figures[`${way}_share_of_openssl`]
    const memory = figures[`${way}_more_memory_mb`]
    if (share < LEAST_OF_OPENSSL)
      failures.push(`${way} has ${share.toFixed(2)} of the speed of openssl, not ${LEAST_OF_OPENSSL}`)
    if (memory >= MOST_MEMORY_MB)
      failures.push(`${way} takes ${memory.toFixed(0)} MB more than idle, not under ${MOST_MEMORY_MB}`)
  }
  return { parameters: { megabytes: bytes / MIB }, figures, failures }
}

/** Content that does not compress, on the disk; answers its SHA-256. */
async function makeFile(path: string, bytes: number): Promise<string> {
  const block = randomBytes(MIB)
  const sha256 = createHash('sha256')
  await using file = await open(path, 'wx')
  for (let at = 0; at < bytes; at += MIB) {
    block.writeDoubleBE(at)
    await file.write(block)
    sha256.update(block)
  }
  await file.sync()
  return sha256.digest('hex')
}

interface Sent {
  readonly seconds: number
  readonly captured: PeerFigures & { readonly file: string }
  readonly mic: string
}

async function send({ directory, waybill, loop, peer }: Site): Promise<Sent> {
  const file = join(directory, 'captured')
  const { url } = await peer.run({ kind: 'listen', file })
  await waybill.request('PUT', `/as2/remote-profiles/${loop.globex.partner}`, {
    business_partner_id: loop.globex.partner,
    as2id: 'GLOBEX AS2',
    endpoint: url,
    partner_certificate_id: loop.globex.certificate,
    compression: 'None',
    encryption_algorithm: 'AES256-CBC',
    signing_algorithm: 'SHA256',
    receipt_mode: 'None',
  })
  await mkdir(loop.outbox, { recursive: true })
  await rename(join(directory, FILE), join(loop.outbox, FILE))
  const captured = peer.run({ kind: 'captured' })
  captured.catch(() => undefined)
  const message = await delivered(waybill, 'outbound')
  return {
    seconds: secondsOfAttempt(message),
    captured: { ...(await captured), file },
    mic: message.protocols.as2?.mic ?? '',
  }
}

function secondsOfAttempt({ history }: Message): number {
  const at = (state: string): number =>
    Date.parse(history.find(({ new_state }) => new_state === state)?.created_at ?? '')
  return (at('delivered') - at('delivering')) / 1000
}

/** Asks for a signed receipt, which must be good, and waits until the file lies where the writer puts it. */
async function receive(
  { waybill, loop, peer, sha256 }: Site,
  captured: Sent['captured'],
  mic: string,
): Promise<number> {
  const headers = [
    ...captured.headers.filter(([name]) => !/^(host|connection|user-agent)$/i.test(name)),
    ['Disposition-Notification-To', 'acme'] as const,
    [
      'Disposition-Notification-Options',
      'signed-receipt-protocol=optional, pkcs7-signature; signed-receipt-micalg=optional, sha-256',
    ] as const,
  ]
  const answer = await peer.run({ kind: 'post', url: loop.receiverUrl, headers, file: captured.file })
  if (answer.status !== 200)
    throw new Error(`The receiver answered ${answer.status} ${answer.body.toString()}`)
  const receipt = await readReceipt({
    headers: answer.headers,
    body: Buffer.from(answer.body),
    signers: [loop.globex.keys.certificate],
  })
  if (!receipt.signed || receipt.disposition.modifier !== null || receipt.mic?.value !== mic)
    throw new Error(`The receipt is not good: ${receipt.dispositionText}, ${receipt.mic?.value}, not ${mic}`)
  await delivered(waybill, 'inbound')
  const written = createHash('sha256')
  await pipeline(createReadStream(join(loop.inbox, FILE)), written)
  if (written.digest('hex') !== sha256) throw new Error('The file that arrived is not the one that was sent')
  return answer.seconds
}

async function delivered(waybill: Waybill, direction: 'inbound' | 'outbound'): Promise<Message> {
  const deadline = performance.now() + TIME_LIMIT_MS
  for (;;) {
    const { messages } = await waybill.request<{ messages: Message[] }>('GET', '/messages?limit=10')
    const message = messages.find((each) => each.direction === direction)
    if (message?.status === 'Delivered') return message
    const failed = message !== undefined && /^(Error|Refused|NotRouted|Stalled)$/.test(message.status)
    if (failed || performance.now() > deadline)
      throw new Error(`Not delivered: ${JSON.stringify(message, null, 2)}\n${waybill.output.join('\n')}`)
    await sleep(LOOK_MS)
  }
}

/** The same content, from file to file on the same disk: decrypted, then hashed. */
async function opensslSeconds({ directory, loop }: Site): Promise<{ decrypt: number; hash: number }> {
  const openssl = promisify(execFile)
  const [encrypted, plain] = [join(directory, 'encrypted'), join(directory, 'plain')]
  const key = ['-aes-256-cbc', '-K', randomBytes(32).toString('hex'), '-iv', randomBytes(16).toString('hex')]
  await openssl('openssl', ['enc', ...key, '-in', join(loop.inbox, FILE), '-out', encrypted])
  const timed = async (...command: string[]): Promise<number> => {
    const beganMs = performance.now()
    await openssl('openssl', command)
    return (performance.now() - beganMs) / 1000
  }
  const decrypt = await timed('enc', '-d', ...key, '-in', encrypted, '-out', plain)
  return { decrypt, hash: await timed('dgst', '-sha256', plain) }
}
