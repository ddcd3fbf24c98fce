import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestCertificate } from '../../support/certificates.ts'
import { reservePort } from '../../support/reserved-port.ts'
import type { Waybill } from '../../support/waybill.ts'
import type { Peers } from './peers.ts'

/** A company with every kind of source and target, and one partner. */
export interface Site {
  readonly receiverUrl: string
  /** Id of the partner. */
  readonly partner: number
  readonly folders: SiteFolders
}

export interface SiteFolders {
  readonly outbox: string
  readonly processed: string
  readonly refused: string
  /** By target. */
  readonly written: Readonly<Record<string, string>>
  readonly payloads: string
}

/** At most so many deliveries a target has in hand. */
export const CONCURRENCY = 5
/** A target that writes over what is there. */
export const OVERWRITER = 'overwriter'
/** A target that never runs. */
export const ABSENT = 'absent'
/** A notifier that tells of each alert by itself, and one that groups them and leaves repeats out. */
export const OPERATORS = 'operators'
export const DIGEST = 'digest'
/** A target that fails at each start, where somebody is told of it. */
export const BROKEN = 'broken'
/** Where the routes lead. */
export const TARGETS_OF_SOURCE = {
  poller: ['poster', 'sender', 'writer'],
  receiver: ['poster', 'writer'],
} as const

/** Longer than a test takes. */
export const COOLDOWN_MINUTES = 60
const WORKING = { retry_initial_seconds: 1, retry_max_seconds: 2, retry_max_attempts: 100 }
/** A name that a message has alone, so that a file that was written twice shows. */
const PATH_PATTERN = '{id}-{filename}'

export interface SiteOptions {
  /** Whether there is a second writer, which writes over what is there. */
  readonly overwrites: boolean
  /** Whether all receipts travel by themselves. */
  readonly asynchronous: boolean
  /** Whether an operator is told of alerts. */
  readonly notifies: boolean
  /** Working directory of the process. */
  readonly directory: string
  readonly peers: Peers
  readonly keys: { readonly ours: TestCertificate; readonly theirs: TestCertificate }
}

/** Configures it. The instances start with the next start of the process. */
export async function setUpSite(waybill: Waybill, options: SiteOptions): Promise<Site> {
  const { directory, peers, overwrites, notifies } = options
  const folders: SiteFolders = {
    outbox: join(directory, 'outbox'),
    processed: join(directory, 'processed'),
    refused: join(directory, 'refused'),
    written: {
      writer: join(directory, 'written'),
      ...(overwrites ? { [OVERWRITER]: join(directory, 'overwritten') } : {}),
    },
    payloads: join(directory, 'payloads'),
  }
  const partner = await setUpParties(waybill, options)
  const receiver = await reservePort()
  const configure = (type: string, body: object) =>
    waybill.request('POST', `/plugins/configs?type=${type}`, body)
  await configure('as2-receiver', { name: 'receiver', ...receiver })
  await configure('file-poller', {
    name: 'poller',
    from: 'acme',
    base_directory: folders.outbox,
    processed_directory: folders.processed,
    error_directory: folders.refused,
    polling_interval: 1,
    settle_seconds: 0,
  })
  const target = { max_concurrent_deliveries: CONCURRENCY, ...WORKING }
  await configure('as2-sender', { name: 'sender', ...target })
  await configure('http-poster', { name: 'poster', url: peers.postUrl, ...target })
  const writer = { path_pattern: PATH_PATTERN, ...target }
  for (const [name, base_directory] of Object.entries(folders.written)) {
    const on_conflict = name === OVERWRITER ? 'overwrite' : 'rename'
    await configure('file-writer', { name, base_directory, on_conflict, ...writer })
  }
  if (notifies) {
    const all = { url: peers.alertUrl, min_severity: 'info', ...WORKING }
    await configure('notification-webhook', { name: OPERATORS, ...all, cooldown_minutes: 0 })
    const gathers = { cooldown_minutes: COOLDOWN_MINUTES, group_seconds: 1 }
    await configure('notification-webhook', { name: DIGEST, ...all, ...gathers })
    await configure('file-writer', { name: BROKEN, base_directory: '/dev/null/nowhere' })
  }
  const absent = { name: ABSENT, enabled: false, base_directory: join(directory, 'never'), ...writer }
  await configure('file-writer', absent)
  for (const [source_plugin, targets] of Object.entries(TARGETS_OF_SOURCE))
    for (const target_plugin of targets)
      await waybill.request('POST', '/routes', { source_plugin, target_plugin })
  for (const party of ['globex', 'nobody']) await mkdir(join(folders.outbox, party), { recursive: true })
  return { receiverUrl: `http://${receiver.host}:${receiver.port}/as2`, partner, folders }
}

async function setUpParties(waybill: Waybill, { keys, peers, asynchronous }: SiteOptions): Promise<number> {
  const certificate = async (pair: TestCertificate, withKey: boolean): Promise<number> => {
    const stored = await waybill.upload<{ id: number }>('/certificates', {
      certificate: new Blob([pair.certificatePem]),
      ...(withKey ? { private_key: new Blob([pair.privateKeyPem]) } : {}),
      description: withKey ? 'ours' : 'theirs',
    })
    return stored.id
  }
  const [ours, theirs] = [await certificate(keys.ours, true), await certificate(keys.theirs, false)]
  const made = (path: string, name: string) => waybill.request<{ id: number }>('POST', path, { name })
  const [{ id: acme }, { id: globex }] = [
    await made('/organizations', 'acme'),
    await made('/partners', 'globex'),
  ]
  await waybill.request('POST', '/as2/local-profiles', {
    local_organization_id: acme,
    as2id: 'ACME',
    signing_certificate_id: ours,
    decryption_certificate_id: ours,
  })
  await waybill.request('POST', '/as2/remote-profiles', {
    business_partner_id: globex,
    as2id: 'GLOBEX',
    endpoint: peers.as2Url,
    partner_certificate_id: theirs,
    receipt_mode: asynchronous ? 'Async' : 'Sync',
  })
  return globex
}
