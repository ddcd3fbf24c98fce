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
  for (const [network, bits] of NETWORKS_4) {
    refused.addSubnet(network, bits, 'ipv4')
    const written = inHexadecimal(network)
    // As IPv6 writes them: mapped and compatible (RFC 4291 §2.5.5), translated (RFC 6052 §2.1), in 6to4 (RFC 3056 §2).
    for (const prefix of ['::ffff:', '::', '64:ff9b::'])
      refused.addSubnet(prefix + written, 96 + bits, 'ipv6')
    refused.addSubnet(`2002:${written}::`, 16 + bits, 'ipv6')
  }
  return refused
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
  const [withoutZone = ''] = address.split('%', 1)
  const family = isIP(withoutZone)
  return family === 0 || REFUSED.check(withoutZone, family === 6 ? 'ipv6' : 'ipv4')
}

/** Throws for a URL whose host is itself such an address: nothing looks that up. */
export function refuseAddressOf(url: URL): void {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0 && isRefusedAddress(host)) throw refusal(host)
}

function refusal(host: string): PermanentFailure {
  return new PermanentFailure(
    `${host} is a link-local address or a metadata service, which is never connected to`,
  )
}

type Resolver = (
  host: string,
  options: { readonly all: true; readonly family?: number; readonly hints?: number },
  answer: (error: Error | null, addresses: readonly LookupAddress[]) => void,
) => void

const resolveBySystem: Resolver = (host, options, answer) => systemLookup(host, options, answer)

/**
 * The look-up for a connection, without the addresses that are refused. The connection goes to one of the addresses
 * that it answers, and nothing asks a second time: a name cannot be one address here and another one there.
 */
export function allowedLookup(resolve: Resolver = resolveBySystem): LookupFunction {
  return (host, options, answer) => {
    const family = options.family === 'IPv4' ? 4 : options.family === 'IPv6' ? 6 : options.family
    const asked = {
      all: true,
      ...(family === undefined ? {} : { family }),
      ...(options.hints === undefined ? {} : { hints: options.hints }),
    } as const
    resolve(host, asked, (error, addresses) => {
      const allowed = addresses?.filter(({ address }) => !isRefusedAddress(address)) ?? []
      const [first] = allowed
      if (error !== null) answer(error, '')
      else if (first === undefined) answer(refusal(host), '')
      else if (options.all === true) answer(null, allowed)
      else answer(null, first.address, first.family)
    })
  }
}
