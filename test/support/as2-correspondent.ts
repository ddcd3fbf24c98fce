import { randomUUID } from 'node:crypto'
import { composeMessage, type ComposedMessage, type Outgoing } from '../../actors/as2/protocol/compose.ts'
import type { Signing } from '../../actors/as2/protocol/cms/signature.ts'
import { readReceipt, type Receipt } from '../../actors/as2/protocol/receipt.ts'
import type { As2Loop } from './as2-loop.ts'
import type { TestCertificate } from './certificates.ts'
import { allMessages, type ExchangedMessage } from './exchanged-messages.ts'
import type { Waybill } from './waybill.ts'

export interface Answered {
  readonly status: number
  readonly headers: [string, string][]
  readonly body: Buffer
}

export interface Sent extends Answered {
  readonly message: Outgoing
  readonly composed: ComposedMessage
}

/** Acme as a partner outside of the service: it makes messages for Globex, posts them, and reads the receipts. */
export class As2Correspondent {
  readonly #waybill: Waybill
  readonly #loop: As2Loop

  constructor(waybill: Waybill, loop: As2Loop) {
    this.#waybill = waybill
    this.#loop = loop
  }

  /** A message as the profiles demand it, but for what is changed. */
  message(changes: Partial<Outgoing> = {}): Outgoing {
    const { acme, globex } = this.#loop
    return {
      as2From: 'ACME-AS2',
      as2To: 'GLOBEX AS2',
      messageId: `<${randomUUID()}@acme>`,
      subject: 'an invoice',
      date: new Date(),
      fileName: `${randomUUID()}.edi`,
      contentType: 'application/edifact',
      content: Buffer.from("UNB+UNOC:3'"),
      compression: 'BeforeSigning',
      signature: signedBy(acme.keys),
      encryption: encryptedTo(globex.keys),
      receipt: { signed: true, asyncUrl: null },
      product: 'Partner/1.0',
      ...changes,
    }
  }

  /** Composes a message and posts it; `damage` may alter its body in between. */
  async send(
    changes: Partial<Outgoing> = {},
    damage: (body: Buffer) => Buffer = (body) => body,
  ): Promise<Sent> {
    const message = this.message(changes)
    const composed = await composeMessage(message)
    return { message, composed, ...(await this.post(composed.headers, damage(composed.body))) }
  }

  async post(headers: ReadonlyArray<readonly [string, string]>, body: Buffer): Promise<Answered> {
    const response = await fetch(this.#loop.receiverUrl, {
      method: 'POST',
      headers: headers.map(([name, value]) => [name, value]),
      body: new Uint8Array(body),
    })
    return {
      status: response.status,
      headers: [...response.headers],
      body: Buffer.from(await response.arrayBuffer()),
    }
  }

  /** The receipt of Globex; its signature, if any, is verified. */
  async receiptOf(
    { headers, body }: Answered,
    signers: readonly TestCertificate[] = [this.#loop.globex.keys],
  ): Promise<Receipt> {
    return readReceipt({ headers, body, signers: signers.map(({ certificate }) => certificate) })
  }

  /** What the service has recorded under a Message-ID. */
  async recordsOf(messageId: string): Promise<ExchangedMessage[]> {
    const all = await allMessages(this.#waybill)
    return all.filter(({ direction, protocols }) => {
      return direction === 'inbound' && protocols.as2?.message_id === messageId
    })
  }

  /** A payload stage of a recorded message; null for one that it lacks. */
  async stage({ id }: { readonly id: string }, name: string): Promise<Buffer | null> {
    const response = await fetch(`${this.#waybill.url}/api/v1/messages/${id}/payload?stage=${name}`)
    const bytes = Buffer.from(await response.arrayBuffer())
    return response.status === 404 ? null : bytes
  }

  /** Stores a certificate; answers its id. */
  async store(keys: TestCertificate, withKey = false): Promise<number> {
    const { id } = await this.#waybill.upload<{ id: number }>('/certificates', {
      certificate: new Blob([keys.certificatePem]),
      ...(withKey ? { private_key: new Blob([keys.privateKeyPem]) } : {}),
      description: 'of a test',
    })
    return id
  }

  /** Changes what the service knows of Acme, or of Globex. */
  async profile(side: 'acme' | 'globex', change: object): Promise<void> {
    await this.#waybill.request('PUT', `/as2/remote-profiles/${this.#loop[side].partner}`, change)
  }

  /** Changes the own profile of Acme or Globex. */
  async localProfile(side: 'acme' | 'globex', change: object): Promise<void> {
    await this.#waybill.request('PUT', `/as2/local-profiles/${this.#loop[side].organization}`, change)
  }
}

export function signedBy(
  { certificate, privateKey }: TestCertificate,
  changes: Partial<Signing> = {},
): Signing {
  return { algorithm: 'SHA256', scheme: 'PKCS1', certificate, privateKey, ...changes }
}

export function encryptedTo({ certificate }: TestCertificate) {
  return { algorithm: 'AES256-CBC', keyTransport: 'PKCS1', certificate } as const
}
