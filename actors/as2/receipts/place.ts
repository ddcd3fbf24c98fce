import { isIP } from 'node:net'
import { isRefusedAddress, parseNetwork, refusing, type Refused } from '../../http/addresses.ts'

/**
 * Where an asynchronous receipt may go. The address is named in the headers of a message, which nobody has signed: it may
 * lead to any system that this machine reaches. So a receipt goes to the public Internet, to the host that the partner's
 * profile names, and to where the settings of the receiver allow; and to nobody but the partner's own host with what the
 * profile keeps secret.
 */

const MAX_URL_CHARACTERS = 2_048

/** What is not for the public (RFC 6890): this host, private and shared networks, tests, multicast, reserved. */
const INNER_NETWORKS = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/3',
  '::/127',
  'fc00::/7',
  'fec0::/10',
  'ff00::/8',
]

const isInner = refusing(INNER_NETWORKS)

/** What the settings of a receiver allow beside public addresses and the partner's own host. */
export interface AllowedPlaces {
  readonly hosts: ReadonlySet<string>
  /** Whether an address is in one of the networks; only asked where it is not one that is never connected to. */
  readonly includes: (address: string) => boolean
}

/** @param entries host names, addresses and networks */
export function allowedPlaces(entries: readonly string[]): AllowedPlaces {
  const networks = entries.filter((entry) => parseNetwork(entry) !== null)
  const hosts = entries.filter((entry) => parseNetwork(entry) === null).map((host) => host.toLowerCase())
  return { hosts: new Set(hosts), includes: refusing(networks) }
}

export interface ReceiptPlace {
  readonly url: URL
  /** Whether it is the partner's own host, which may be shown what its profile holds. */
  readonly isPartner: boolean
  /** Whether an address that the host's name leads to is not connected to. */
  readonly isRefused: Refused
  /** Whether the rule is that for anybody: a connection made under another rule must not be used for it. */
  readonly isStrange: boolean
}

/** Null when the text cannot be where a receipt goes to. */
export function receiptPlace(
  text: string,
  { endpoint, allowed }: { readonly endpoint: string | null; readonly allowed: AllowedPlaces },
): ReceiptPlace | null {
  if (text.length > MAX_URL_CHARACTERS || !URL.canParse(text)) return null
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return null
  if (url.username !== '' || url.password !== '') return null
  url.hash = ''
  const own = endpoint === null ? null : new URL(endpoint)
  const isOwnHost = own !== null && own.hostname === url.hostname
  const isStrange = !isOwnHost && !allowed.hosts.has(url.hostname)
  return {
    url,
    // What travels to the endpoint encrypted does not travel in clear because a header says so.
    isPartner: isOwnHost && (own.protocol === 'http:' || url.protocol === 'https:'),
    isRefused: isStrange ? (address) => isRefusedFor(address, allowed) : isRefusedAddress,
    isStrange,
  }
}

function isRefusedFor(address: string, allowed: AllowedPlaces): boolean {
  return isRefusedAddress(address) || (isInner(address) && !allowed.includes(address))
}

/** Whether it can be told without a look-up that the place is never connected to. */
export function isHopeless({ url, isRefused, isStrange }: ReceiptPlace): boolean {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0) return isRefused(host)
  // RFC 6761 §6.3
  return isStrange && /(?:^|\.)localhost\.?$/.test(host) && isRefused('127.0.0.1')
}
