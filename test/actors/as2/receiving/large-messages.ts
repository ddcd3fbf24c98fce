/** Messages that are too large for memory, and what a receiver makes of them. */
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Outgoing } from '../../../../actors/as2/protocol/compose.ts'
import type { As2Loop } from '../../../support/as2-loop.ts'

const MIB = 1024 * 1024
const LIMIT_MS = 120_000

export interface Sent {
  readonly status: number
  readonly headers: [string, string][]
  readonly body: Buffer
}

/** From Acme to Globex with the secure defaults; the content can neither be foreseen nor compressed away. */
export function largeOutgoing({ acme, globex }: As2Loop, changes: Partial<Outgoing> = {}): Outgoing {
  return {
    as2From: 'ACME-AS2',
    as2To: 'GLOBEX AS2',
    messageId: `<${randomUUID()}@acme>`,
    subject: null,
    date: new Date(),
    fileName: `${randomUUID()}.edi`,
    contentType: 'application/edifact',
    content: notRepeating(3 * MIB),
    compression: 'BeforeSigning',
    signature: {
      algorithm: 'SHA256',
      scheme: 'PKCS1',
      certificate: acme.keys.certificate,
      privateKey: acme.keys.privateKey,
    },
    encryption: { algorithm: 'AES256-CBC', keyTransport: 'PKCS1', certificate: globex.keys.certificate },
    receipt: { signed: true, asyncUrl: null },
    product: 'Partner/1.0',
    ...changes,
  }
}

/** Bytes of which no run occurs twice, always the same. */
export function notRepeating(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  let state = 1
  for (let at = 0; at + 4 <= length; at += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    bytes.writeUInt32LE((state ^ (state >>> 13)) >>> 0, at)
  }
  return bytes
}

/** Posts with a length, or without one in chunks. */
export function post(
  url: string,
  headers: ReadonlyArray<readonly [string, string]>,
  { body, chunked = false }: { readonly body: Buffer; readonly chunked?: boolean },
): Promise<Sent> {
  const { promise, resolve, reject } = Promise.withResolvers<Sent>()
  const length = chunked ? {} : { 'Content-Length': String(body.length) }
  const sent = request(url, { method: 'POST', headers: { ...Object.fromEntries(headers), ...length } })
  sent.on('error', reject)
  sent.on('response', (response) => {
    const pairs = Object.entries(response.headers).map(([name, value]): [string, string] => [
      name,
      String(value),
    ])
    const answer = buffer(response).finally(() => sent.destroy())
    resolve(answer.then((bytes) => ({ status: response.statusCode ?? 0, headers: pairs, body: bytes })))
  })
  let at = 0
  const write = (): void => {
    while (at < body.length) {
      const part = body.subarray(at, at + MIB)
      at += part.length
      if (!sent.write(part)) return void sent.once('drain', write)
    }
    sent.end()
  }
  write()
  return promise
}

export async function digestOfFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer)
  return hash.digest('hex')
}

/**
 * What lies in a payload directory of bodies and contents, and the drafts of those that come in, under `.incoming`. The
 * small stages are left out: they are moved there some time after they were committed.
 */
export async function storedNames(payloads: string): Promise<string[]> {
  const names = await readdir(payloads, { recursive: true })
  return names.filter((name) => /^\.incoming\/|\/(received|unpacked)$/.test(name)).toSorted()
}

export async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + LIMIT_MS
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`In vain waited for: ${what}`)
    await sleep(50)
  }
}

export function payloadsOf(directory: string): string {
  return join(directory, 'payloads')
}
