import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createLog } from '../../runtime/log.ts'
import { raiseCertificateAlerts } from '../../storage/alerts/alert-round.ts'
import type { AlertCode } from '../../storage/alerts/alert.ts'
import { StorageCondition } from '../../storage/alerts/storage-condition.ts'
import { failOverdue, stallWaiting, tick } from '../../storage/sql/maintain.ts'
import type { TestApi } from './api.ts'
import { makeCertificate } from './certificates.ts'
import type { Teardown } from './database.ts'
import { dropFile } from './file-set.ts'
import { temporaryDirectory, until } from './processes.ts'
import { reservePort } from './reserved-port.ts'

/**
 * A company in which all goes wrong that an operator is alerted of, by the instances, folders and partners that do it. What
 * takes hours or days is made to be over; the steps of the clock are taken by hand, as no clock runs in a test of the API.
 */
export interface TroubledSite {
  /** Makes one thing go wrong; answers the id of what the alert is about. */
  readonly happen: Readonly<Record<AlertCode, () => Promise<string>>>
}

const NODE = 'test'
/** The nobody of a partner: no organization and no partner is called so. */
export const STRANGER = 'mallory'

export interface TroubledSiteOptions {
  readonly api: TestApi
  /** An AS2 server that takes every message, and never sends a receipt. */
  readonly partnerUrl: string
}

export async function setUpTroubledSite(
  t: Teardown,
  { api, partnerUrl }: TroubledSiteOptions,
): Promise<TroubledSite> {
  const { client, database } = api
  const { pool } = database
  const directory = await temporaryDirectory(t)
  const nobody = await reservePort()
  const certificates = await setUpParties(api, partnerUrl)
  const configure = (type: string, body: object) => client.create(`/plugins/configs?type=${type}`, body)
  const start = async (instance: string): Promise<void> => {
    const { status, text } = await client.post(`/services/${instance}/start`)
    if (status !== 200) throw new Error(text)
  }
  const folders = {
    base_directory: join(directory, 'outbox'),
    processed_directory: join(directory, 'processed'),
    error_directory: join(directory, 'refused'),
  }
  await mkdir(join(folders.base_directory, STRANGER), { recursive: true })
  await configure('as2-receiver', { name: 'receiver', ...(await reservePort()) })
  await configure('as2-sender', { name: 'sender' })
  const url = `http://${nobody.host}:${nobody.port}/in`
  await configure('http-poster', { name: 'poster', url, retry_max_attempts: 1 })
  await configure('file-writer', { name: 'writer', base_directory: join(directory, 'written') })
  await configure('file-writer', { name: 'archive', base_directory: '/dev/null/nowhere' })
  const poller = { name: 'poller', from: 'acme', polling_interval: 1, settle_seconds: 0 }
  await configure('file-poller', { ...poller, ...folders })
  for (const instance of ['as2-sender/sender', 'http-poster/poster', 'file-poller/poller'])
    await start(instance)

  const send = async (target: string): Promise<string> => {
    const parts = { from: 'acme', to: 'globex', target, file: new TextEncoder().encode('UNA') }
    const { status, data, text } = await client.ask('POST', '/messages', { parts })
    if (status !== 201) throw new Error(text)
    return String(data['id'])
  }
  const untilIt = async (id: string, state: string): Promise<void> => {
    await until(async () => {
      const deliveries = (await client.get(`/messages/${id}`)).data['deliveries'] as { state: string }[]
      return deliveries.every((delivery) => delivery.state === state)
    })
  }
  const lookAtCertificates = async (): Promise<void> => {
    await tick(pool, NODE, 3_600)
    if ((await raiseCertificateAlerts(pool, NODE)) !== 1) throw new Error('No certificate was alerted')
  }
  return {
    happen: {
      plugin_failed: async () => {
        const { status } = await client.post('/services/file-writer/archive/start')
        if (status !== 500) throw new Error('It has started')
        return 'file-writer:archive'
      },
      delivery_failed: async () => {
        const id = await send('poster')
        await untilIt(id, 'failed')
        return id
      },
      delivery_stalled: async () => {
        const id = await send('writer')
        await pool.query(
          `update delivery set waiting_since = waiting_since - interval '1 day' where target = 'writer'`,
        )
        await pool.query(`delete from target_work where target = 'writer'`)
        if ((await stallWaiting(pool, 1)) !== 1) throw new Error('Nothing has stalled')
        return id
      },
      receipt_overdue: async () => {
        const id = await send('sender')
        await untilIt(id, 'awaiting_ack')
        await pool.query(`update delivery set receipt_due_at = exchange_time() where target = 'sender'`)
        if ((await failOverdue(pool)) !== 1) throw new Error('No receipt is overdue')
        return id
      },
      message_refused: async () => {
        await dropFile(join(folders.base_directory, STRANGER), 'invoice.edi', Buffer.from('UNA'))
        let found: readonly { readonly id: string }[] = []
        await until(async () => {
          found = (await client.get('/messages?status=Refused')).data['messages'] as typeof found
          return found.length > 0
        })
        return found[0]?.id ?? ''
      },
      certificate_expiring: async () => {
        await client.put(`/as2/remote-profiles/${certificates.partner}`, {
          partner_certificate_id: certificates.ending,
        })
        await lookAtCertificates()
        return String(certificates.ending)
      },
      certificate_expired: async () => {
        await client.put(`/as2/local-profiles/${certificates.organization}`, {
          signing_certificate_id: certificates.ended,
        })
        await lookAtCertificates()
        return String(certificates.ended)
      },
      storage_failed: async () => {
        const condition = new StorageCondition({ pool, log: createLog('silent'), nodeId: NODE, node: NODE })
        condition.note({
          problem: 'Payloads cannot be stored: The file system is full',
          place: `the directory ${api.directory}`,
          facts: null,
        })
        await condition.settled()
        return 'payloads'
      },
    },
  }
}

interface Parties {
  readonly organization: number
  readonly partner: number
  /** Ids of certificates. */
  readonly ending: number
  readonly ended: number
}

/** Acme and Globex with their profiles; receipts go by themselves. */
async function setUpParties({ client }: TestApi, partnerUrl: string): Promise<Parties> {
  const stored = async (commonName: string, days: number): Promise<number> => {
    const { certificatePem, privateKeyPem } = makeCertificate({ commonName, days, age: 400 })
    const parts = { certificate: certificatePem, private_key: privateKeyPem, description: commonName }
    const { status, data, text } = await client.ask('POST', '/certificates', { parts })
    if (status !== 201) throw new Error(text)
    return Number(data['id'])
  }
  const [ours, theirs] = [await stored('acme edi', 300), await stored('globex edi', 300)]
  const [ending, ended] = [await stored('globex edi 2025', 5), await stored('acme edi 2025', -1)]
  const organization = Number((await client.create('/organizations', { name: 'acme' }))['id'])
  const partner = Number((await client.create('/partners', { name: 'globex' }))['id'])
  await client.create('/as2/local-profiles', {
    local_organization_id: organization,
    as2id: 'ACME',
    signing_certificate_id: ours,
    decryption_certificate_id: ours,
  })
  await client.create('/as2/remote-profiles', {
    business_partner_id: partner,
    as2id: 'GLOBEX',
    endpoint: partnerUrl,
    partner_certificate_id: theirs,
    receipt_mode: 'Async',
  })
  return { organization, partner, ending, ended }
}
