import { join } from 'node:path'
import { makeCertificate, type CertificateWishes, type TestCertificate } from './certificates.ts'
import { reservePort } from './reserved-port.ts'
import type { Teardown } from './database.ts'
import { temporaryDirectory } from './processes.ts'
import { Waybill } from './waybill.ts'

/**
 * Two companies in one service: Acme drops files into a folder, which go over AS2 to Globex, whose receiver hands them
 * to a writer. The same process is so a sender and a receiver, and every byte goes over the wire.
 */
export interface As2Loop {
  readonly outbox: string
  readonly processed: string
  readonly inbox: string
  /** Where the receiver takes messages. */
  readonly receiverUrl: string
  readonly acme: Side
  readonly globex: Side
}

export interface LoopOptions {
  /** The folders lie below it. */
  readonly directory: string
  readonly concurrency?: number
  readonly pollSeconds?: number
  readonly settleSeconds?: number
  readonly retryInitialSeconds?: number
  /** Kind of the keys of both; default RSA. */
  readonly keys?: Pick<CertificateWishes, 'keyType' | 'curve'>
}

interface Identified {
  readonly id: number
}

export async function setUpLoop(waybill: Waybill, options: LoopOptions): Promise<As2Loop> {
  const { directory, concurrency = 5, pollSeconds = 1, settleSeconds = 0, retryInitialSeconds = 1 } = options
  const receiver = await reservePort()
  const receiverUrl = `http://${receiver.host}:${receiver.port}/as2`
  const [outbox, processed, inbox] = ['outbox', 'processed', 'inbox'].map((name) =>
    join(directory, name),
  ) as [string, string, string]
  const { acme, globex } = await makeParties(waybill, options.keys ?? {})
  const retry = { retry_initial_seconds: retryInitialSeconds, retry_max_seconds: 10, retry_max_attempts: 50 }
  const configure = (type: string, body: object) =>
    waybill.request('POST', `/plugins/configs?type=${type}`, body)
  await configure('as2-receiver', { name: 'receiver', ...receiver })
  await configure('file-writer', {
    name: 'writer',
    base_directory: inbox,
    path_pattern: '{filename}',
    max_concurrent_deliveries: concurrency,
    ...retry,
  })
  await configure('as2-sender', { name: 'sender', max_concurrent_deliveries: concurrency, ...retry })
  await configure('file-poller', {
    name: 'poller',
    base_directory: outbox,
    processed_directory: processed,
    from: 'acme',
    polling_interval: pollSeconds,
    settle_seconds: settleSeconds,
  })
  await makeProfiles(waybill, { acme, globex, endpoint: receiverUrl })
  await waybill.request('POST', '/routes', {
    source_plugin: 'poller',
    from: 'acme',
    to: 'globex',
    target_plugin: 'sender',
  })
  await waybill.request('POST', '/routes', { source_plugin: 'receiver', target_plugin: 'writer' })
  return { outbox: join(outbox, 'globex'), processed, inbox, receiverUrl, acme, globex }
}

/** Starts the four instances, targets first. */
export async function startLoop(waybill: Waybill): Promise<void> {
  for (const instance of [
    'file-writer/writer',
    'as2-receiver/receiver',
    'as2-sender/sender',
    'file-poller/poller',
  ]) {
    await waybill.request('POST', `/services/${instance}/start`)
  }
}

/** A company: it is an organization and a partner at once. */
export interface Side {
  readonly organization: number
  readonly partner: number
  /** Id of the stored certificate. */
  readonly certificate: number
  readonly keys: TestCertificate
}

async function makeParties(
  waybill: Waybill,
  wishes: Pick<CertificateWishes, 'keyType' | 'curve'>,
): Promise<{ acme: Side; globex: Side }> {
  const make = async (name: string, displayName: string): Promise<Side> => {
    const body = { name, display_name: displayName }
    const organization = await waybill.request<Identified>('POST', '/organizations', body)
    const partner = await waybill.request<Identified>('POST', '/partners', body)
    const keys = makeCertificate({ commonName: displayName, ...wishes })
    const certificate = await waybill.upload<Identified>('/certificates', {
      certificate: new Blob([keys.certificatePem]),
      private_key: new Blob([keys.privateKeyPem]),
      description: `${displayName}, signing and encryption`,
    })
    return { organization: organization.id, partner: partner.id, certificate: certificate.id, keys }
  }
  return { acme: await make('acme', 'Acme Pumps'), globex: await make('globex', 'Globex Waterworks') }
}

async function makeProfiles(
  waybill: Waybill,
  { acme, globex, endpoint }: { acme: Side; globex: Side; endpoint: string },
): Promise<void> {
  for (const [as2id, side] of [
    ['ACME-AS2', acme],
    ['GLOBEX AS2', globex],
  ] as const) {
    await waybill.request('POST', '/as2/local-profiles', {
      local_organization_id: side.organization,
      as2id,
      signing_certificate_id: side.certificate,
      decryption_certificate_id: side.certificate,
    })
    await waybill.request('POST', '/as2/remote-profiles', {
      business_partner_id: side.partner,
      as2id,
      endpoint,
      partner_certificate_id: side.certificate,
    })
  }
}

export interface OpenLoop {
  readonly directory: string
  readonly waybill: Waybill
  readonly loop: As2Loop
}

/** A service in a directory of its own, with a loop that runs until the test ends. */
export async function openLoop(t: Teardown): Promise<OpenLoop> {
  const directory = await temporaryDirectory(t)
  const waybill = await Waybill.start({ directory })
  t.teardown(async () => void (await waybill.stop()))
  const loop = await setUpLoop(waybill, { directory })
  await startLoop(waybill)
  return { directory, waybill, loop }
}
