import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestCertificate } from '../support/certificates.ts'
import type { ReservedPort } from '../support/reserved-port.ts'
import type { Waybill } from '../support/waybill.ts'

/** A Waybill that knows another product under many names: one pair of AS2 ids for each case. */

/** For one thing that is waited for; no busy machine needs it. */
const LIMIT_MS = 240_000
const LOOK_MS = 100
export const OUR_AS2_ID = 'WAYBILL'

/** The peer's own certificate, or one that it has nothing to do with. */
type Trusted = 'own' | 'stranger'

export interface SiteCase {
  /** Unique; names the partner. Lower case letters, digits and hyphens. */
  readonly name: string
  /** AS2 id of the peer; default one made of the name. */
  readonly as2Id?: string
  /** Our AS2 id; default the one of most cases. */
  readonly ourAs2Id?: string
  /** Properties of the partner's profile. */
  readonly profile: Readonly<Record<string, unknown>>
  /** Which certificates the partner's profile has; default the peer's own. */
  readonly encryptTo?: Trusted
  readonly verifyWith?: Trusted
}

export interface As2View {
  readonly message_id: string
  readonly as2_from: string
  readonly signed: boolean | null
  readonly encrypted: boolean | null
  readonly compressed: boolean | null
  readonly algorithms: Readonly<Record<'signature' | 'encryption' | 'compression', string | null>>
  readonly mic: string | null
  readonly mic_algorithm: string | null
  readonly receipt: {
    readonly mode: string
    readonly signed: boolean
    readonly state: string
    readonly disposition: string | null
    readonly mic: string | null
    readonly mic_matches: boolean | null
  } | null
}

export interface MessageView {
  readonly id: string
  readonly direction: 'inbound' | 'outbound'
  readonly status: string
  readonly from: string
  readonly to: string
  readonly file_name: string
  readonly deliveries: readonly { readonly state: string; readonly last_error: string | null }[]
  readonly history: readonly { readonly kind: string; readonly text?: string }[]
  readonly protocols: { readonly as2?: As2View }
}

export interface SiteOptions {
  readonly waybill: Waybill
  /** Its folders lie below it. */
  readonly directory: string
  readonly cases: readonly SiteCase[]
  /** Where it takes messages. */
  readonly receiver: ReservedPort
  /** Where the peer takes messages. */
  readonly peerUrl: string
  readonly keys: Readonly<Record<'ours' | 'theirs' | 'stranger', TestCertificate>>
}

interface Identified {
  readonly id: number
}

export class Site {
  readonly waybill: Waybill
  readonly #options: SiteOptions
  /** Paths of the partners' profiles, by the names of their cases. */
  readonly #profiles = new Map<string, string>()

  constructor(options: SiteOptions) {
    this.waybill = options.waybill
    this.#options = options
  }

  /** Configures everything and starts its instances. */
  async setUp(): Promise<void> {
    await this.#introduce()
    await this.#configure()
  }

  /** What the peer has to say when something does not come. */
  async peerLog(): Promise<string> {
    return ''
  }

  async #configure(): Promise<void> {
    const configure = (type: string, body: object) =>
      this.waybill.request('POST', `/plugins/configs?type=${type}`, body)
    const { receiver, directory } = this.#options
    const retry = { retry_initial_seconds: 1, retry_max_seconds: 2, retry_max_attempts: 3 }
    await configure('as2-receiver', { name: 'receiver', ...receiver })
    await configure('file-writer', {
      name: 'writer',
      base_directory: this.#inbox,
      path_pattern: '{from}/{filename}',
      max_concurrent_deliveries: 4,
      ...retry,
    })
    await configure('as2-sender', {
      name: 'sender',
      max_concurrent_deliveries: 4,
      // A large message is not answered before it is opened.
      response_timeout_seconds: 300,
      ...retry,
    })
    await configure('file-poller', {
      name: 'poller',
      base_directory: this.outbox,
      processed_directory: join(directory, 'processed'),
      from: partyOf(OUR_AS2_ID),
      polling_interval: 1,
      settle_seconds: 1,
    })
    const route = (source_plugin: string, target_plugin: string) =>
      this.waybill.request('POST', '/routes', { source_plugin, target_plugin })
    await route('receiver', 'writer')
    await route('poller', 'sender')
    for (const instance of [
      'file-writer/writer',
      'as2-receiver/receiver',
      'as2-sender/sender',
      'file-poller/poller',
    ])
      await this.waybill.request('POST', `/services/${instance}/start`)
  }

  /** The parties, their certificates and profiles. */
  async #introduce(): Promise<void> {
    const { keys, cases, peerUrl } = this.#options
    const store = async (description: string, certificate: TestCertificate, withKey: boolean) => {
      const parts = { certificate: new Blob([certificate.certificatePem]), description }
      const key = withKey ? { private_key: new Blob([certificate.privateKeyPem]) } : {}
      return this.waybill.upload<Identified>('/certificates', { ...parts, ...key })
    }
    const ours = await store('ours', keys.ours, true)
    const certificates: Record<Trusted, Identified> = {
      own: await store('theirs', keys.theirs, false),
      stranger: await store('a stranger', keys.stranger, false),
    }
    for (const as2id of new Set([OUR_AS2_ID, ...cases.map(({ ourAs2Id = OUR_AS2_ID }) => ourAs2Id)])) {
      const { id } = await this.waybill.request<Identified>('POST', '/organizations', {
        name: partyOf(as2id),
      })
      await this.waybill.request('POST', '/as2/local-profiles', {
        local_organization_id: id,
        as2id,
        signing_certificate_id: ours.id,
        decryption_certificate_id: ours.id,
      })
    }
    for (const each of cases) {
      const { id } = await this.waybill.request<Identified>('POST', '/partners', { name: each.name })
      this.#profiles.set(each.name, `/as2/remote-profiles/${id}`)
      await this.waybill.request('POST', '/as2/remote-profiles', {
        business_partner_id: id,
        as2id: as2IdOf(each),
        endpoint: peerUrl,
        partner_certificate_id: certificates[each.encryptTo ?? 'own'].id,
        partner_signing_certificate_id: certificates[each.verifyWith ?? 'own'].id,
        ...each.profile,
      })
    }
  }

  /** From now on the partner of a case is verified with the certificate that its profile encrypts to. */
  async mend(name: string): Promise<void> {
    const path = this.#profiles.get(name) ?? ''
    const profile = await this.waybill.request<Record<string, unknown>>('GET', path)
    const { created_at: _created, updated_at: _updated, ...settings } = profile
    await this.waybill.request('PUT', path, { ...settings, partner_signing_certificate_id: null })
  }

  get #inbox(): string {
    return join(this.#options.directory, 'inbox')
  }

  /** Files below `<name of a case>/` are sent to its partner, whatever their size. */
  get outbox(): string {
    return join(this.#options.directory, 'outbox')
  }

  /** Has Waybill send a file to the peer; answers the message's id. */
  async send(name: string, fileName: string, content: Uint8Array<ArrayBuffer>): Promise<string> {
    const form = new FormData()
    const { ourAs2Id = OUR_AS2_ID } = this.#options.cases.find((each) => each.name === name) ?? {}
    form.set('from', partyOf(ourAs2Id))
    form.set('to', name)
    form.set('target', 'sender')
    form.set('file', new Blob([content], { type: 'application/octet-stream' }), fileName)
    const response = await fetch(`${this.waybill.url}/api/v1/messages`, {
      method: 'POST',
      headers: { 'x-requested-with': 'waybill' },
      body: form,
    })
    const { data } = (await response.json()) as { data: MessageView | null }
    if (response.status !== 201 || data === null) throw new Error(`Waybill answers ${response.status}`)
    return data.id
  }

  async message(id: string): Promise<MessageView> {
    return this.waybill.request<MessageView>('GET', `/messages/${id}`)
  }

  /** Messages that came from the partner of a case, the oldest first. */
  async messagesFrom(name: string): Promise<MessageView[]> {
    const { messages } = await this.waybill.request<{ messages: MessageView[] }>(
      'GET',
      `/messages?from=${name}&limit=100`,
    )
    return messages.toReversed()
  }

  /** Waits until a message went to the partner of a case and is at its end. */
  async settledTo(name: string): Promise<MessageView[]> {
    return this.watched(`a settled message to ${name}`, async () => {
      const { messages } = await this.waybill.request<{ messages: MessageView[] }>(
        'GET',
        `/messages?to=${name}`,
      )
      return messages.length > 0 && messages.every(isSettled) ? messages : undefined
    })
  }

  /** Waits until a message under an AS2 id came and is at its end: it may be of nobody that we know. */
  async settledUnder(as2Id: string): Promise<MessageView> {
    return this.watched(`a settled message from ${as2Id}`, async () => {
      const { messages } = await this.waybill.request<{ messages: MessageView[] }>(
        'GET',
        '/messages?status=Refused&limit=500',
      )
      return messages.find(({ protocols }) => protocols.as2?.as2_from === as2Id)
    })
  }

  /** Waits until so many messages came from the partner of a case, all at their end, the last one in a status if asked. */
  async settledFrom(name: string, count = 1, lastStatus?: string): Promise<MessageView[]> {
    return this.watched(`${count} settled message(s) from ${name}`, async () => {
      const messages = await this.messagesFrom(name)
      const isEnd = lastStatus === undefined || messages.at(-1)?.status === lastStatus
      return messages.length >= count && messages.every(isSettled) && isEnd ? messages : undefined
    })
  }

  /** Waits until a message is at its end. */
  async settled(id: string): Promise<MessageView> {
    return this.watched(`the end of message ${id}`, async () => {
      const message = await this.message(id)
      return isSettled(message) ? message : undefined
    })
  }

  /** Waits until a message is as it should be, such as until its receipt is sent, which may be after its delivery. */
  async messageWith(
    id: string,
    what: string,
    holds: (message: MessageView) => boolean,
  ): Promise<MessageView> {
    return this.watched(`${what} of message ${id}`, async () => {
      const message = await this.message(id)
      return holds(message) ? message : undefined
    })
  }

  /** Waits until the receipt of a message was made or came, if there is to be one. */
  async withReceipt(id: string): Promise<MessageView> {
    return this.messageWith(id, 'the receipt', ({ protocols }) => protocols.as2?.receipt?.state !== 'pending')
  }

  /** The content of a file that Waybill wrote. */
  async written(name: string, fileName: string): Promise<Buffer> {
    return readFile(this.writtenPath(name, fileName))
  }

  writtenPath(name: string, fileName: string): string {
    return join(this.#inbox, name, fileName)
  }

  /** A payload of a message. */
  async payload(id: string, stage: string): Promise<Buffer> {
    const response = await fetch(`${this.waybill.url}/api/v1/messages/${id}/payload?stage=${stage}`)
    if (response.status !== 200) throw new Error(`Waybill answers ${response.status}`)
    return Buffer.from(await response.arrayBuffer())
  }

  /** Waits for something; when it does not come, the logs say more. */
  async watched<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
    const deadline = performance.now() + LIMIT_MS
    for (;;) {
      const found = await look()
      if (found !== undefined) return found
      if (performance.now() > deadline) {
        const logs = [...this.waybill.output, 'The peer:', await this.peerLog()]
        throw new Error(`Waited in vain for ${what}\n${logs.join('\n')}`)
      }
      await sleep(LOOK_MS)
    }
  }
}

const END_STATES: ReadonlySet<string> = new Set(['Delivered', 'Error', 'Refused', 'NotRouted'])
const isSettled = ({ status }: MessageView): boolean => END_STATES.has(status)

export const digestOf = (content: Uint8Array): string => hash('sha256', content, 'hex')

export const as2IdOf = ({ name, as2Id }: Pick<SiteCase, 'name' | 'as2Id'>): string => as2Id ?? `OA-${name}`

/** The organization that speaks under an AS2 id of ours. */
const partyOf = (as2Id: string): string => `us-${digestOf(Buffer.from(as2Id)).slice(0, 12)}`
