import { isIPv6 } from 'node:net'
import type { Pool } from 'pg'
import { enabledSettings } from '../../../storage/plugins/enabled-settings.ts'
import type { As2ReceiverSettings } from '../settings.ts'

type Place = Pick<As2ReceiverSettings, 'host' | 'port' | 'path' | 'tls_certificate_id' | 'public_url'>

/**
 * Where partners are asked to send asynchronous receipts (the header Receipt-Delivery-Option): to an enabled receiver,
 * one that says where it is reached before all others, else the one that is there for longest. Null: there is none that
 * could be named.
 */
export async function receiptDeliveryOption(pool: Pool, publicUrl: string): Promise<string | null> {
  const receivers = (await enabledSettings(pool, 'as2-receiver')) as unknown as Place[]
  const explicit = receivers.find(({ public_url }) => public_url !== '')
  if (explicit !== undefined) return explicit.public_url
  return receivers.map((place) => addressOf(place, publicUrl)).find((address) => address !== null) ?? null
}

/** A receiver on all interfaces is reached by the name that the service itself goes by. */
function addressOf({ host, port, path, tls_certificate_id }: Place, publicUrl: string): string | null {
  // Which port the system gives, nobody knows beforehand.
  if (port === 0) return null
  const name = host === '' ? new URL(publicUrl).hostname : isIPv6(host) ? `[${host}]` : host
  return `${tls_certificate_id === null ? 'http' : 'https'}://${name}:${port}${path}`
}
