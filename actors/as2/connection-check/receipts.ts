import { BlockList, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { ConnectionFacts } from '../../../storage/profiles/connection-facts.ts'

/**
 * Whether the partner can answer: a message whose receipt cannot come, or does not count, fails for all that it arrived.
 */

/** Why no asynchronous receipt can be asked for; null where one can, or none is. `url`: where it would be. */
export function receiverProblem({ receipt_mode }: ConnectionFacts, url: string | null): string | null {
  if (receipt_mode !== 'Async' || url !== null) return null
  return 'receipt_mode is Async, and no enabled AS2 receiver could take the receipts in'
}

/**
 * Why the partner cannot send its receipts to where we ask for them; null where it may. An address that means the machine
 * itself leads whoever is elsewhere to its own machine.
 */
export function loopProblem(
  { partner, receipt_mode }: ConnectionFacts,
  url: string | null,
  addresses: readonly { readonly address: string }[],
): string | null {
  if (receipt_mode !== 'Async' || url === null || !isThisMachine(new URL(url).hostname)) return null
  const own = new Set(
    Object.values(networkInterfaces())
      .flatMap((each) => each ?? [])
      .map(({ address }) => address),
  )
  if (addresses.some(({ address }) => own.has(address) || isLoopback(address))) return null
  return `${partner} is elsewhere, and would send its receipts to ${url}, which leads it to itself: set public_url of the AS2 receiver`
}

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8)
LOOPBACK.addAddress('0.0.0.0')
LOOPBACK.addAddress('::1', 'ipv6')
LOOPBACK.addAddress('::', 'ipv6')

function isLoopback(address: string): boolean {
  return LOOPBACK.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

function isThisMachine(hostname: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return isIP(host) === 0 ? /(?:^|\.)localhost\.?$/.test(host) : isLoopback(host)
}

/** What is no hindrance to what we send, and to all that the partner does; null where there is none. */
export function inboundProblem({ partner, require_signed, checked }: ConnectionFacts): string | null {
  if (!require_signed || checked.signing !== null) return null
  return `messages of ${partner} will be refused: require_signed is true, and there is no certificate to verify them with`
}
