import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { TestCertificate } from '../../support/certificates.ts'
import type { Teardown } from '../../support/database.ts'
import { plainCommand } from '../../support/processes.ts'
import { reservePort, type ReservedPort } from '../../support/reserved-port.ts'
import { PYTHON } from './installation.ts'

const PROGRAM = fileURLToPath(new URL('peer.py', import.meta.url))

export interface PyAs2Case {
  readonly name: string
  readonly as2Id: string
  readonly partnerAs2Id: string
  readonly partnerUrl: string
  /** PEM. */
  readonly partnerCertificate: string
  /** Arguments of pyas2lib's Partner: how it sends, and what it takes. */
  readonly partner: Readonly<Record<string, string | boolean | null>>
}

/** What pyas2lib found in a message from us. */
export interface PyAs2Received {
  readonly status: string
  readonly error: string | null
  readonly fileName: string | null
  /** Base64. */
  readonly content: string
  readonly signed: boolean
  readonly encrypted: boolean
  readonly compressed: boolean
  readonly mic: string | null
}

/** What became of a message to us: `status` and `detail` are its judgement of our receipt. */
export interface PyAs2Sent {
  readonly httpStatus: number
  readonly messageId: string
  readonly mic: string | null
  readonly status: string | null
  readonly detail: string | null
}

/** A partner made of pyas2lib, in a process of its own, which ends with the test. */
export class PyAs2 {
  readonly #place: ReservedPort

  private constructor(place: ReservedPort) {
    this.#place = place
  }

  static async start(
    t: Teardown,
    directory: string,
    { keys, cases }: { readonly keys: TestCertificate; readonly cases: readonly PyAs2Case[] },
  ): Promise<PyAs2> {
    const place = await reservePort()
    const configuration = join(directory, 'pyas2.json')
    const key = keys.privateKeyPem + keys.certificatePem
    await writeFile(configuration, JSON.stringify({ ...place, key, cases }))
    const child = spawn(...plainCommand(PYTHON, [PROGRAM, configuration]), {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.teardown(async () => {
      child.kill('SIGKILL')
    })
    for await (const line of createInterface({ input: child.stdout })) {
      if (line === 'ready') return new PyAs2(place)
    }
    throw new Error('The partner made of pyas2lib did not start')
  }

  /** Where it takes messages. */
  get url(): string {
    return `http://${this.#place.host}:${this.#place.port}/`
  }

  async received(name: string): Promise<readonly PyAs2Received[]> {
    const response = await fetch(`${this.url}received/${name}`)
    return (await response.json()) as PyAs2Received[]
  }

  /** Has it send a file; answers when it has judged the receipt. */
  async send(name: string, fileName: string, content: Uint8Array<ArrayBuffer>): Promise<PyAs2Sent> {
    const path = `send/${name}?name=${encodeURIComponent(fileName)}`
    const response = await fetch(`${this.url}${path}`, { method: 'POST', body: content })
    if (!response.ok) throw new Error(`pyas2lib answers ${response.status}`)
    return (await response.json()) as PyAs2Sent
  }
}
