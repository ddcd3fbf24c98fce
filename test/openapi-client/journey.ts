import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import createClient from 'openapi-fetch'
import type { components, paths } from './generated/api.ts'

/**
 * What a user's program does with the client that was generated from the served document: sets two companies up,
 * sends a file from folder to folder, and finds it in the list of messages. Prints what it found as JSON.
 *
 * `node journey.ts BASE_URL DIRECTORY`, where the directory holds `certificate.pem` and `private-key.pem`.
 */

const [, , baseUrl = '', directory = ''] = process.argv
const LOOK_MS = 100
const LIMIT_MS = 60_000

const api = createClient<paths>({ baseUrl, headers: { 'content-type': 'application/json' } })

interface Answered {
  readonly data?: { readonly data: unknown } | undefined
  readonly error?: unknown
}

/** The data of an answer of success; a refusal ends the program. */
function dataOf<A extends Answered>(answer: A): NonNullable<A['data']>['data'] {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error))
  return answer.data.data
}

type Certificate = components['schemas']['Certificate']

async function uploadCertificate(): Promise<Certificate> {
  const read = (name: string): Promise<string> => readFile(join(directory, name), 'utf8')
  const uploaded = dataOf(
    await api.POST('/certificates', {
      params: { header: { 'X-Requested-With': 'journey' } },
      // The form has a Content-Type of its own.
      headers: { 'content-type': null },
      body: {
        certificate: await read('certificate.pem'),
        private_key: await read('private-key.pem'),
        description: 'Of the journey',
      },
      bodySerializer: (parts) => {
        const form = new FormData()
        for (const [name, text] of Object.entries(parts)) form.set(name, text)
        return form
      },
    }),
  )
  if (!('fingerprint_sha256' in uploaded)) throw new Error('The certificate was not stored')
  return uploaded
}

async function setUp(): Promise<{ readonly certificate: Certificate }> {
  const organization = dataOf(
    await api.POST('/organizations', { body: { name: 'acme', display_name: 'ACME' } }),
  )
  const partner = dataOf(await api.POST('/partners', { body: { name: 'globex' } }))
  const certificate = await uploadCertificate()
  dataOf(
    await api.POST('/as2/local-profiles', {
      body: {
        local_organization_id: organization.id,
        as2id: 'ACME',
        signing_certificate_id: certificate.id,
        decryption_certificate_id: certificate.id,
      },
    }),
  )
  const profile = dataOf(
    await api.POST('/as2/remote-profiles', {
      body: {
        business_partner_id: partner.id,
        as2id: 'GLOBEX',
        endpoint: 'http://127.0.0.1:9/as2',
        partner_certificate_id: certificate.id,
      },
    }),
  )
  if (profile.receipt_mode !== 'Sync') throw new Error(`The receipt is ${profile.receipt_mode}`)
  await configure()
  dataOf(
    await api.POST('/routes', {
      body: { source_plugin: 'outbox', from: 'acme', to: 'globex', target_plugin: 'inbox' },
    }),
  )
  return { certificate }
}

async function configure(): Promise<void> {
  dataOf(
    await api.POST('/plugins/configs', {
      params: { query: { type: 'file-poller' } },
      body: {
        name: 'outbox',
        base_directory: join(directory, 'outbox'),
        processed_directory: join(directory, 'processed'),
        from: 'acme',
        polling_interval: 1,
        settle_seconds: 0,
      },
    }),
  )
  dataOf(
    await api.POST('/plugins/configs', {
      params: { query: { type: 'file-writer' } },
      body: { name: 'inbox', base_directory: join(directory, 'inbox') },
    }),
  )
  for (const [type, name] of [
    ['file-writer', 'inbox'],
    ['file-poller', 'outbox'],
  ] as const) {
    const path = { type, name, action: 'start' }
    const instance = dataOf(await api.POST('/services/{type}/{name}/{action}', { params: { path } }))
    if (instance.status !== 'running') throw new Error(`${name} is ${instance.status}`)
  }
}

async function delivered(): Promise<components['schemas']['Message']> {
  const deadline = performance.now() + LIMIT_MS
  while (performance.now() < deadline) {
    const list = dataOf(await api.GET('/messages', { params: { query: { status: 'Delivered', limit: 1 } } }))
    const [message] = list.messages
    if (message !== undefined) return message
    await sleep(LOOK_MS)
  }
  throw new Error('No message was delivered in time')
}

const { certificate } = await setUp()
await writeFile(join(directory, 'draft'), 'UNA')
await rename(join(directory, 'draft'), join(directory, 'outbox', 'globex', 'order.edi'))
const message = await delivered()
const refusal = await api.POST('/partners', { body: { name: 'globex' } })
const removed = await api.DELETE('/routes/{id}', { params: { path: { id: 1 } } })
console.log(
  JSON.stringify({
    certificate: certificate.common_name,
    message: { file_name: message.file_name, from: message.from, to: message.to, size: message.size_bytes },
    refusal: refusal.error?.error.code,
    removed: removed.response.status,
  }),
)
