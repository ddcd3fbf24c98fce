import { lookup as systemLookup, type LookupAddress } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { PermanentFailure } from '../../storage/exchange/retry.ts'

/**
 * Where requests to configured URLs never go: what a machine tells about itself to everybody on it, credentials of
 * its cloud account included. Loopback and private networks are where the operator's own systems are.
 */

/** Link-local (RFC 3927), and the metadata services of clouds that have other addresses. */
const NETWORKS_4 = [
  ['169.254.0.0', 16],
  ['100.100.100.200', 32],
  ['168.63.129.16', 32],
  ['192.0.0.192', 32],
] as const

/** Link-local (RFC 4291 §2.5.6), and the metadata services of clouds within IPv6. */
const NETWORKS_6 = [
  ['fe80::', 10],
  ['fd00:ec2::254', 128],
  ['fd20:ce::254', 128],
  ['fd00:42::42', 128],
] as const

const REFUSED = refusedAddresses()

function refusedAddresses(): BlockList {
  const refused = new BlockList()
  for (const [network, bits] of NETWORKS_6) refused.addSubnet(network, bits, 'ipv6')
  for (const [network, bits] of NETWORKS_4) add4(refused, network, bits)
  return refused
}

function add4(refused: BlockList, network: string, bits: number): void {
  refused.addSubnet(network, bits, 'ipv4')
  const written = inHexadecimal(network)
  // As IPv6 writes them: mapped and compatible (RFC 4291 §2.5.5), translated (RFC 6052 §2.1), in 6to4 (RFC 3056 §2).
  for (const prefix of ['::ffff:', '::', '64:ff9b::']) refused.addSubnet(prefix + written, 96 + bits, 'ipv6')
  refused.addSubnet(`2002:${written}::`, 16 + bits, 'ipv6')
}

/** Whether an address is never connected to. */
export type Refused = (address: string) => boolean

/** A network as it is written: an address, or one with the number of its leading bits, `10.0.0.0/8`. */
export function parseNetwork(text: string): { readonly address: string; readonly bits: number } | null {
  const [, address = '', length] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const family = isIP(address)
  if (family === 0) return null
  const most = family === 6 ? 128 : 32
  const bits = length === undefined ? most : Number(length)
  return bits <= most ? { address, bits } : null
}

/** What an instance refuses: these networks beside those that are refused always. */
export function refusing(networks: readonly string[]): Refused {
  const more = new BlockList()
  for (const text of networks) {
    const network = parseNetwork(text)
    if (network === null) throw new Error(`${text} is no network`)
    if (isIP(network.address) === 4) add4(more, network.address, network.bits)
    else more.addSubnet(network.address, network.bits, 'ipv6')
  }
  return (address) => isRefusedAddress(address) || isIn(more, address)
}

/** `169.254.1.2` as `a9fe:0102`. */
function inHexadecimal(address: string): string {
  const [a = '', b = '', c = '', d = ''] = address
    .split('.')
    .map((part) => Number(part).toString(16).padStart(2, '0'))
  return `${a}${b}:${c}${d}`
}

/** Whether an IP address is one that is never connected to. */
export function isRefusedAddress(address: string): boolean {
  return isIn(REFUSED, address)
}

/** What is no address counts as one that is refused. */
function isIn(list: BlockList, address: string): boolean {
  const [withoutZone = ''] = address.split('%', 1)
  const family = isIP(withoutZone)
  return family === 0 || list.check(withoutZone, family === 6 ? 'ipv6' : 'ipv4')
}

/** Throws for a URL whose host is itself such an address: nothing looks that up. */
export function refuseAddressOf(url: URL, isRefused: Refused = isRefusedAddress): void {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0 && isRefused(host)) throw refusal(host, isRefusedAddress(host))
}

function refusal(host: string, always: boolean): PermanentFailure {
  return new PermanentFailure(
    always
      ? `${host} is a link-local address or a metadata service, which is never connected to`
      : `${host} is in a network that the settings refuse`,
  )
}

export type Resolver = (
  host: string,
  options: { readonly all: true; readonly family?: number; readonly hints?: number },
  answer: (error: Error | null, addresses: readonly LookupAddress[]) => void,
) => void

export const resolveBySystem: Resolver = (host, options, answer) => systemLookup(host, options, answer)

/**
 * The look-up for a connection, without the addresses that are refused. The connection goes to one of the addresses
 * that it answers, and nothing asks a second time: a name cannot be one address here and another one there.
 */
export function allowedLookup(
  resolve: Resolver = resolveBySystem,
  isRefused: Refused = isRefusedAddress,
): LookupFunction {
  return (host, options, answer) => {
    const family = options.family === 'IPv4' ? 4 : options.family === 'IPv6' ? 6 : options.family
    const asked = {
      all: true,
      ...(family === undefined ? {} : { family }),
      ...(options.hints === undefined ? {} : { hints: options.hints }),
    } as const
    resolve(host, asked, (error, addresses) => {
      const allowed = addresses?.filter(({ address }) => !isRefused(address)) ?? []
      const [first] = allowed
      if (error !== null) answer(error, '')
      else if (first === undefined)
        answer(
          refusal(
            host,
            (addresses ?? []).every(({ address }) => isRefusedAddress(address)),
          ),
          '',
        )
      else if (options.all === true) answer(null, allowed)
      else answer(null, first.address, first.family)
    })
  }
}
