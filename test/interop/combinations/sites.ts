import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { makeCertificate, type TestCertificate } from '../../support/certificates.ts'
import { reservePort } from '../../support/reserved-port.ts'
import { Waybill } from '../../support/waybill.ts'
import { COMBINATIONS, type Combination } from './combination.ts'
import { Wire } from './wire.ts'

/** Requests to an API at the same time. */
const AT_ONCE = 8

type KeyType = 'rsa' | 'ec'
type Keys = Readonly<Record<KeyType, TestCertificate>>

/** Two services: one sends to as many partners as there are combinations, the other one is them all. */
export interface Sites {
  readonly sender: Waybill
  readonly receiver: Waybill
  readonly wire: Wire
  /** The keys of the partners, to decrypt with. */
  readonly recipients: Keys
}

interface Identified {
  readonly id: number
}

export async function setUpSites(t: Test): Promise<Sites> {
  const directory = await mkdtemp(join(tmpdir(), 'waybill-combinations-'))
  const [sender, receiver] = await Promise.all([
    Waybill.start({ directory: join(directory, 'sender') }),
    Waybill.start({ directory: join(directory, 'receiver') }),
  ])
  t.teardown(async () => {
    await Promise.all([sender.stop(), receiver.stop()])
    await rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  })
  const signers = makeKeys('Sender')
  const recipients = makeKeys('Partner')
  const [senderUrl, receiverUrl] = await Promise.all([startReceiver(sender), startReceiver(receiver)])
  const wire = await Wire.start(t, receiverUrl)
  await Promise.all([
    setUpSender(sender, { signers, recipients, endpoint: wire.url }),
    setUpReceiver(receiver, { signers, recipients, endpoint: senderUrl }),
  ])
  await sender.request('POST', '/plugins/configs?type=as2-sender', {
    name: 'sender',
    max_concurrent_deliveries: 4,
  })
  await sender.request('POST', '/services/as2-sender/sender/start')
  return { sender, receiver, wire, recipients }
}

/** The organization that signs with such a key. */
export function organizationOf({ signature }: Combination): string {
  return signature?.signer === 'EC' ? 'sender-ec' : 'sender-rsa'
}

export function partyOf({ partner }: Combination): string {
  return partner.toLowerCase().replace(' ', '-')
}

export function recipientKey({ recipient }: Combination): KeyType {
  return recipient === 'EC' ? 'ec' : 'rsa'
}

function makeKeys(commonName: string): Keys {
  return {
    rsa: makeCertificate({ commonName, keyType: 'rsa' }),
    ec: makeCertificate({ commonName, keyType: 'ec' }),
  }
}

async function startReceiver(waybill: Waybill): Promise<string> {
  const place = await reservePort()
  const url = `http://${place.host}:${place.port}/as2`
  await waybill.request('POST', '/plugins/configs?type=as2-receiver', {
    name: 'receiver',
    ...place,
    public_url: url,
  })
  await waybill.request('POST', '/services/as2-receiver/receiver/start')
  return url
}

interface Setting {
  readonly signers: Keys
  readonly recipients: Keys
  readonly endpoint: string
}

async function setUpSender(waybill: Waybill, { signers, recipients, endpoint }: Setting): Promise<void> {
  const stored = { rsa: await store(waybill, recipients.rsa), ec: await store(waybill, recipients.ec) }
  for (const type of ['rsa', 'ec'] as const) {
    const certificate = await store(waybill, signers[type], true)
    const { id } = await waybill.request<Identified>('POST', '/organizations', { name: `sender-${type}` })
    await waybill.request('POST', '/as2/local-profiles', {
      local_organization_id: id,
      as2id: `SENDER ${type}`,
      signing_certificate_id: certificate,
      decryption_certificate_id: certificate,
    })
  }
  await forEach(COMBINATIONS, async (combination) => {
    const { signature, encryption, compression, recipient, receipt, partner } = combination
    const { id } = await waybill.request<Identified>('POST', '/partners', { name: partyOf(combination) })
    await waybill.request('POST', '/as2/remote-profiles', {
      business_partner_id: id,
      as2id: partner,
      endpoint,
      partner_certificate_id: stored[recipientKey(combination)],
      partner_signing_certificate_id: stored.rsa,
      compression,
      signing_algorithm: signature?.digest ?? 'None',
      signature_scheme: signature?.signer === 'RSA with PSS' ? 'PSS' : 'PKCS1',
      encryption_algorithm: encryption,
      key_transport: recipient.includes('OAEP') ? 'OAEP' : 'PKCS1',
      oaep_digest: recipient === 'RSA with OAEP-SHA1' ? 'SHA1' : 'SHA256',
      receipt_mode: receipt.split(',')[0],
      receipt_signed: receipt.endsWith('signed'),
    })
  })
}

async function setUpReceiver(waybill: Waybill, { signers, recipients, endpoint }: Setting): Promise<void> {
  for (const type of ['rsa', 'ec'] as const) {
    const { id } = await waybill.request<Identified>('POST', '/partners', { name: `sender-${type}` })
    await waybill.request('POST', '/as2/remote-profiles', {
      business_partner_id: id,
      as2id: `SENDER ${type}`,
      endpoint,
      partner_certificate_id: await store(waybill, signers[type]),
      require_signed: false,
      require_encrypted: false,
    })
  }
  const stored = {
    rsa: await store(waybill, recipients.rsa, true),
    ec: await store(waybill, recipients.ec, true),
  }
  await forEach(COMBINATIONS, async (combination) => {
    const { id } = await waybill.request<Identified>('POST', '/organizations', { name: partyOf(combination) })
    await waybill.request('POST', '/as2/local-profiles', {
      local_organization_id: id,
      as2id: combination.partner,
      signing_certificate_id: stored.rsa,
      decryption_certificate_id: stored[recipientKey(combination)],
    })
  })
}

async function store(waybill: Waybill, keys: TestCertificate, withKey = false): Promise<number> {
  const { id } = await waybill.upload<Identified>('/certificates', {
    certificate: new Blob([keys.certificatePem]),
    ...(withKey ? { private_key: new Blob([keys.privateKeyPem]) } : {}),
    description: 'of a test',
  })
  return id
}

/** Some at a time. */
export async function forEach<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = items.values()
  const lane = async (): Promise<void> => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
}
