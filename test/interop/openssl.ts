import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import type { Outgoing } from '../../actors/as2/protocol/compose.ts'
import { readMessage } from '../../actors/as2/protocol/read.ts'
import type { Incoming } from '../../actors/as2/protocol/incoming.ts'
import type { TestCertificate } from '../support/certificates.ts'

const run = promisify(execFile)

/** The content that travels, in an entity of its own making. */
export const CONTENT = Buffer.from("UNB+UNOA:1'\r\nUNZ+0+1'\r\n".repeat(200))
export const ENTITY = Buffer.concat([
  Buffer.from(
    'Content-Type: application/edifact\r\nContent-Disposition: attachment; filename="b.edi"\r\n\r\n',
  ),
  CONTENT,
])

/** A message of ours, neither signed nor encrypted. */
export const PLAIN: Outgoing = {
  as2From: 'sender',
  as2To: 'receiver',
  messageId: '<1@sender>',
  subject: null,
  date: new Date(),
  fileName: 'a.edi',
  contentType: 'application/edifact',
  content: CONTENT,
  compression: 'None',
  signature: null,
  encryption: null,
  receipt: { signed: true, asyncUrl: null },
  product: 'Waybill/0.1.0',
}

/** The command `openssl cms` over files of a directory of its own. */
export class Openssl {
  readonly #directory: string
  #files = 0

  private constructor(directory: string) {
    this.#directory = directory
  }

  /** `certificates` are known to the options by their names, see `signer` and `pem`. */
  static async start(t: Test, certificates: Readonly<Record<string, TestCertificate>>): Promise<Openssl> {
    const directory = await mkdtemp(join(tmpdir(), 'waybill-cms-'))
    t.teardown(() => rm(directory, { recursive: true, force: true }))
    for (const [name, { certificatePem, privateKeyPem }] of Object.entries(certificates)) {
      await writeFile(join(directory, `${name}.pem`), certificatePem)
      await writeFile(join(directory, `${name}.key`), privateKeyPem)
    }
    return new Openssl(directory)
  }

  pem(name: string): string {
    return join(this.#directory, `${name}.pem`)
  }

  signer(name: string): string[] {
    return ['-signer', this.pem(name), '-inkey', join(this.#directory, `${name}.key`)]
  }

  /** Runs `openssl cms` over a file; gives what it wrote. */
  async cms(input: Buffer, ...options: string[]): Promise<Buffer> {
    const file = join(this.#directory, String(++this.#files))
    await writeFile(`${file}.in`, input)
    await run('openssl', ['cms', '-in', `${file}.in`, '-out', `${file}.out`, ...options])
    return readFile(`${file}.out`)
  }

  decrypt(input: Buffer, name: string): Promise<Buffer> {
    const key = ['-recip', this.pem(name), '-inkey', join(this.#directory, `${name}.key`)]
    return this.cms(input, '-decrypt', '-binary', '-inform', 'DER', ...key)
  }

  /** Verifies a multipart/signed entity, given as its two parts, since openssl takes text only as a whole. */
  async verify(entity: Buffer, name: string): Promise<Buffer> {
    const [, boundary = ''] = /boundary="([^"]+)"/.exec(entity.toString('latin1')) ?? []
    const start = entity.indexOf(`--${boundary}\r\n`) + boundary.length + 4
    const end = entity.indexOf(`\r\n--${boundary}\r\n`, start)
    const file = join(this.#directory, `${++this.#files}.content`)
    await writeFile(file, entity.subarray(start, end))
    const [base64 = ''] = bodyOf(entity.subarray(end + 4))
      .toString('latin1')
      .split('--')
    const trusted = ['-CAfile', this.pem(name), '-purpose', 'any']
    const signature = Buffer.from(base64, 'base64')
    return this.cms(signature, '-verify', '-binary', '-inform', 'DER', '-content', file, ...trusted)
  }
}

/** What follows the header block. */
export function bodyOf(entity: Buffer): Buffer {
  return entity.subarray(entity.indexOf('\r\n\r\n') + 4)
}

export interface Received {
  readonly contentType: string
  readonly body: Buffer
}

/** Takes the headers off an S/MIME file, as openssl writes it. */
export function withoutHeaders(file: Buffer): Received {
  const lines = file.indexOf('\n\n') >= 0 ? '\n\n' : '\r\n\r\n'
  const end = file.indexOf(lines)
  const [, contentType = ''] = /^Content-Type: (.*)$/m.exec(file.toString('latin1', 0, end)) ?? []
  return { contentType: contentType.trim(), body: file.subarray(end + lines.length) }
}

/** Has us read a message that openssl made. */
export function readFrom(
  { contentType, body }: Received,
  keys: { readonly signers?: readonly TestCertificate[]; readonly decryption?: readonly TestCertificate[] },
): Promise<Incoming> {
  return readMessage({
    headers: [
      ['AS2-From', 'sender'],
      ['AS2-To', 'receiver'],
      ['Message-ID', '<1@sender>'],
      ['Content-Type', contentType],
    ],
    body,
    decryption: keys.decryption ?? [],
    signers: (keys.signers ?? []).map(({ certificate }) => certificate),
    maxContentBytes: 1_000_000,
  })
}
