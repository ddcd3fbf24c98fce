import { hash } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { composeMessage, type ComposedMessage } from '../../../actors/as2/protocol/compose.ts'
import type { TestCertificate } from '../../support/certificates.ts'
import { dropFile } from '../../support/file-set.ts'
import { OVERWRITER, TARGETS_OF_SOURCE, type Site } from './site.ts'

/** Something that was handed in, which must become one message. */
export interface Item {
  readonly name: string
  readonly sha256: string
  readonly source: 'poller' | 'receiver' | 'api'
  /** Of an unknown party: it is refused. */
  readonly isRefused: boolean
  readonly targets: readonly string[]
  /** Of a message with several files. */
  readonly files?: readonly FileOfItem[]
}

export interface FileOfItem {
  readonly name: string
  readonly sha256: string
}

export interface LoadOptions {
  readonly site: Site
  readonly keys: { readonly ours: TestCertificate; readonly theirs: TestCertificate }
  /** Where receipts are wanted by themselves; null for those with the answer. */
  readonly receiptUrl: string | null
  /** Of the API; null while no process runs. */
  readonly url: () => string | null
}

interface SentMessage {
  readonly composed: ComposedMessage
  receipt: Buffer | null
}

/** Above what travels in the transaction. */
const LARGE_BYTES = 300 * 1024
const SMALL_BYTES = 700
/** Above what a receiver holds in memory. */
const STREAMED_BYTES = 1_500 * 1024
/** In a message with several. */
const FILES = 3
const SEVERAL_FILES = 'multipart/related; boundary="=_load"; type="text/plain"'
const AGAIN_MS = 50
/** Longer than any answer takes on a busy machine. */
const ANSWER_LIMIT_MS = 60_000

/**
 * Those who hand messages in: they repeat what was not confirmed, as partners and programs do, until it is. What was asked
 * for without a way to repeat it (a test message, a redelivery) may have happened when the answer was lost.
 */
export class Load {
  readonly items: Item[] = []
  /** Message ids that were answered to who asked for a test message. */
  readonly testsConfirmed: string[] = []
  testsAsked = 0
  /** Ids of deliveries. */
  readonly redeliveriesConfirmed: number[] = []
  readonly #options: LoadOptions
  readonly #sent: SentMessage[] = []
  readonly #pending = new Set<Promise<void>>()
  #closed = false
  #failure: Error | null = null
  #count = 0

  constructor(options: LoadOptions) {
    this.#options = options
  }

  /** Nobody waits for a confirmation. Throws what was confirmed wrongly. */
  get isQuiet(): boolean {
    if (this.#failure !== null) throw this.#failure
    return this.#pending.size === 0
  }

  close(): void {
    this.#closed = true
  }

  /** A bit of everything, at once. */
  feed(): void {
    for (const size of [SMALL_BYTES, SMALL_BYTES, LARGE_BYTES, SMALL_BYTES]) {
      this.#run(() => this.#dropFile('globex', size))
      this.#run(() => this.#sendAs2(size))
    }
    for (const size of [SMALL_BYTES, LARGE_BYTES]) this.#run(() => this.#sendAs2(size, FILES))
    this.#run(() => this.#sendAs2(STREAMED_BYTES))
    this.#run(() => this.#dropFile('nobody', SMALL_BYTES))
    this.#run(() => this.#repeatAs2())
    const more = OVERWRITER in this.#options.site.folders.written ? [OVERWRITER] : []
    for (const target of ['poster', 'sender', ...more]) this.#run(() => this.post(target, SMALL_BYTES))
    for (const target of ['writer', 'poster', ...more]) this.#run(() => this.post(target, LARGE_BYTES))
    this.#run(() => this.#askForTest())
  }

  /** A message by hand, for one target. */
  async post(target: string, size = SMALL_BYTES): Promise<void> {
    const { name, bytes } = this.#make('api', size, { targets: [target] })
    await this.#untilConfirmed(async (url) => {
      const form = new FormData()
      for (const [field, value] of Object.entries({ from: 'acme', to: 'globex', target }))
        form.set(field, value)
      form.set('file', new Blob([bytes]), name)
      const headers = { 'X-Requested-With': 'test', 'Idempotency-Key': name }
      const answer = await ask(`${url}/api/v1/messages`, { headers, body: form })
      return answer.status === 201
    })
  }

  /** Asks once for another delivery. */
  redeliver(messageId: string, deliveryId: number): void {
    this.#run(async () => {
      const path = `/messages/${messageId}/deliveries/${deliveryId}/redeliver`
      if (await this.#askOnce(path)) this.redeliveriesConfirmed.push(deliveryId)
    })
  }

  redispatch(messageId: string): void {
    this.#run(async () => void (await this.#askOnce(`/messages/${messageId}/redispatch`)))
  }

  async #askForTest(): Promise<void> {
    this.testsAsked += 1
    const answered = await this.#askOnce(`/as2/remote-profiles/${this.#options.site.partner}/test-message`)
    if (answered !== null)
      this.testsConfirmed.push((answered as { data: { message_id: string } }).data.message_id)
  }

  /** The answer of whoever is there first; null for none, or a refusal. */
  async #askOnce(path: string): Promise<unknown> {
    let url = this.#options.url()
    while (url === null) {
      if (this.#closed) return null
      await sleep(AGAIN_MS)
      url = this.#options.url()
    }
    const headers = { 'Content-Type': 'application/json' }
    try {
      const answer = await ask(`${url}/api/v1${path}`, { headers })
      const body: unknown = await answer.json()
      // A redelivery of what is under way is refused.
      if (!answer.ok && answer.status !== 409)
        this.#failure ??= new Error(`${path} is refused: ${JSON.stringify(body)}`)
      return answer.ok ? body : null
    } catch {
      return null
    }
  }

  async #dropFile(party: 'globex' | 'nobody', size: number): Promise<void> {
    const isRefused = party === 'nobody'
    const { name, bytes } = this.#make('poller', size, {
      isRefused,
      targets: isRefused ? [] : TARGETS_OF_SOURCE.poller,
    })
    await dropFile(join(this.#options.site.folders.outbox, party), name, bytes)
  }

  async #sendAs2(size: number, fileCount = 1): Promise<void> {
    const { name, bytes } = this.#make('receiver', size, { targets: TARGETS_OF_SOURCE.receiver, fileCount })
    const { theirs, ours } = this.#options.keys
    const composed = await composeMessage({
      as2From: 'GLOBEX',
      as2To: 'ACME',
      messageId: `<${name}@globex>`,
      subject: null,
      date: new Date(),
      fileName: name,
      contentType: fileCount === 1 ? 'application/octet-stream' : SEVERAL_FILES,
      content: bytes,
      compression: 'None',
      signature: { algorithm: 'SHA256', scheme: 'PKCS1', ...theirs },
      encryption: { algorithm: 'AES256-CBC', keyTransport: 'PKCS1', certificate: ours.certificate },
      receipt: { signed: true, asyncUrl: this.#options.receiptUrl },
      product: 'Partner/1.0',
    })
    const sent: SentMessage = { composed, receipt: null }
    this.#sent.push(sent)
    await this.#untilConfirmed(() => this.#transfer(sent))
  }

  /** The partner may send what was confirmed once more. */
  async #repeatAs2(): Promise<void> {
    const sent = this.#sent.find(({ receipt }) => receipt !== null)
    if (sent !== undefined) await this.#untilConfirmed(() => this.#transfer(sent))
  }

  async #transfer(sent: SentMessage): Promise<boolean> {
    const { headers, body } = sent.composed
    const answer = await ask(this.#options.site.receiverUrl, {
      headers: Object.fromEntries(headers),
      body: new Uint8Array(body),
    })
    const receipt = Buffer.from(await answer.arrayBuffer())
    if (![200, 204].includes(answer.status)) return false
    // Where it comes by itself, the answer is empty.
    const isPositive =
      this.#options.receiptUrl === null ? receipt.includes('processed') : receipt.length === 0
    if (!isPositive || (sent.receipt !== null && !sent.receipt.equals(receipt)))
      this.#failure ??= new Error(`The receipt is not the positive one of before: ${receipt.toString()}`)
    sent.receipt = receipt
    return true
  }

  #make(
    source: Item['source'],
    size: number,
    options: {
      readonly targets: readonly string[]
      readonly isRefused?: boolean
      readonly fileCount?: number
    },
  ): { name: string; bytes: Buffer<ArrayBuffer> } {
    this.#count += 1
    const name = `item-${this.#count}.txt`
    const { targets, isRefused = false, fileCount = 1 } = options
    const contents = Array.from({ length: fileCount }, (_, file) => ({
      name: `item-${this.#count}-${file}.txt`,
      bytes: Buffer.alloc(size, `${name} ${file}\n`),
    }))
    const bytes = fileCount === 1 ? Buffer.alloc(size, `${name}\n`) : severalFiles(contents)
    const files = contents.map((each) => ({ name: each.name, sha256: hash('sha256', each.bytes, 'hex') }))
    const item = { name, sha256: hash('sha256', bytes, 'hex'), source, isRefused, targets }
    this.items.push(fileCount === 1 ? item : { ...item, files })
    return { name, bytes }
  }

  #run(work: () => Promise<void>): void {
    const running = work()
      .catch((error: unknown) => {
        this.#failure ??= error instanceof Error ? error : new Error(String(error))
      })
      .finally(() => this.#pending.delete(running))
    this.#pending.add(running)
  }

  async #untilConfirmed(hand: (url: string) => Promise<boolean>): Promise<void> {
    while (!this.#closed) {
      const url = this.#options.url()
      // Nobody there, or it was killed meanwhile.
      if (url !== null && (await hand(url).catch(() => false))) return
      await sleep(AGAIN_MS)
    }
  }
}

function severalFiles(
  files: readonly { readonly name: string; readonly bytes: Buffer }[],
): Buffer<ArrayBuffer> {
  const parts = files.flatMap(({ name, bytes }) => [
    Buffer.from(`--=_load\r\nContent-Disposition: attachment; filename=${name}\r\n\r\n`),
    bytes,
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...parts, Buffer.from('--=_load--\r\n')])
}

function ask(
  url: string,
  { headers, body }: { headers: Record<string, string>; body?: FormData | Uint8Array<ArrayBuffer> },
): Promise<Response> {
  const signal = AbortSignal.timeout(ANSWER_LIMIT_MS)
  return fetch(url, { method: 'POST', headers, ...(body === undefined ? {} : { body }), signal })
}
