import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { Teardown } from './database.ts'
import { reservePort } from './reserved-port.ts'
import type { Waybill } from './waybill.ts'

/** A company with a folder, a partner, and a server of the partner that messages are posted to. */

export interface Received {
  /** The `webhook-id`, which every repeat carries. */
  readonly id: string
  readonly body: string
}

export interface Partner {
  readonly url: string
  /** Everything that was answered with 200, in order, repeats too. */
  readonly received: readonly Received[]
  /** Different bodies among them. */
  readonly distinct: ReadonlySet<string>
}

/** A server that takes everything. */
export async function startPartner(t: Teardown): Promise<Partner> {
  const received: Received[] = []
  const distinct = new Set<string>()
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = (await buffer(request)).toString()
    received.push({ id: String(request.headers['webhook-id']), body })
    distinct.add(body)
    response.writeHead(200).end()
  }
  const server = createServer((request, response) => {
    take(request, response).catch(() => response.destroy())
  })
  const place = await reservePort()
  server.listen(place)
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://${place.host}:${place.port}/in`, received, distinct }
}

export interface SiteOptions {
  /** The folders lie below it. */
  readonly directory: string
  /** Where messages are posted to. */
  readonly postUrl: string
  readonly concurrency?: number
}

export interface Site {
  /** Files for the partner belong here. */
  readonly outbox: string
  readonly receiverUrl: string
}

/** Configures a poller and an AS2 receiver, whose messages both go to a poster. Nothing is started. */
export async function setUpSite(waybill: Waybill, options: SiteOptions): Promise<Site> {
  const { directory, postUrl, concurrency = 10 } = options
  const { id: organization } = await waybill.request<{ id: number }>('POST', '/organizations', {
    name: 'acme',
  })
  const { id: partner } = await waybill.request<{ id: number }>('POST', '/partners', { name: 'globex' })
  await waybill.request('POST', '/as2/local-profiles', { local_organization_id: organization, as2id: 'ACME' })
  await waybill.request('POST', '/as2/remote-profiles', {
    business_partner_id: partner,
    as2id: 'GLOBEX',
    endpoint: 'http://127.0.0.1:9/as2',
    encryption_algorithm: 'None',
    receipt_signed: false,
    require_signed: false,
    require_encrypted: false,
  })
  const receiver = await reservePort()
  const configure = (type: string, body: object) =>
    waybill.request('POST', `/plugins/configs?type=${type}`, body)
  await configure('http-poster', {
    name: 'poster',
    url: postUrl,
    max_concurrent_deliveries: concurrency,
    retry_initial_seconds: 1,
    retry_max_seconds: 2,
    retry_max_attempts: 100,
  })
  await configure('file-poller', {
    name: 'poller',
    base_directory: join(directory, 'outbox'),
    processed_directory: join(directory, 'processed'),
    from: 'acme',
    polling_interval: 1,
    settle_seconds: 0,
  })
  await configure('as2-receiver', { name: 'receiver', ...receiver })
  for (const source_plugin of ['poller', 'receiver'])
    await waybill.request('POST', '/routes', { source_plugin, target_plugin: 'poster' })
  const outbox = join(directory, 'outbox', 'globex')
  await mkdir(outbox, { recursive: true })
  return { outbox, receiverUrl: `http://${receiver.host}:${receiver.port}/as2` }
}

export const INSTANCES = ['http-poster/poster', 'file-poller/poller', 'as2-receiver/receiver'] as const

export async function startSite(waybill: Waybill, instances: readonly string[] = INSTANCES): Promise<void> {
  for (const instance of instances) await waybill.request('POST', `/services/${instance}/start`)
}

/** Puts a file there that is complete as soon as it is seen. */
export async function drop(outbox: string, name: string, content: string): Promise<void> {
  const draft = join(outbox, '..', '..', `.draft-${randomUUID()}`)
  await writeFile(draft, content)
  await rename(draft, join(outbox, name))
}

/** An AS2 message without any cryptography, as the headers of its request. */
export function as2Headers(messageId: string): Record<string, string> {
  return {
    'AS2-Version': '1.2',
    'AS2-From': 'GLOBEX',
    'AS2-To': 'ACME',
    'Message-ID': `<${messageId}>`,
    'Content-Type': 'application/octet-stream',
    'Disposition-Notification-To': 'receipts@globex.example',
  }
}

export interface ServiceView {
  readonly type: string
  readonly name: string
  readonly status: string
  readonly restarts: number
  readonly held_back: string | null
}

/** The instances of the site as the answering node lists them. */
export async function servicesOf(waybill: Waybill): Promise<readonly ServiceView[]> {
  const { services } = await waybill.request<{ services: readonly ServiceView[] }>('GET', '/services')
  return services.filter(({ type }) => type !== 'api-server')
}

export interface HealthView {
  readonly code: number
  readonly status: string
  readonly database: string
  readonly problems?: readonly string[]
}

export async function healthOf(waybill: Waybill): Promise<HealthView> {
  const answer = await fetch(`${waybill.url}/api/v1/health`, { signal: AbortSignal.timeout(60_000) })
  return { code: answer.status, ...((await answer.json()) as Omit<HealthView, 'code'>) }
}
