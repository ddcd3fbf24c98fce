/**
 * Whether a host is this machine itself, so that what is sent to it never leaves it.
 * @param hostname as WHATWG URLs have it: IPv6 in brackets, IPv4 in four numbers.
 */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname)
}
