import { createHmac } from 'node:crypto'

/**
 * Tells the addresses of a notifier apart. An address is a secret, so its digest is keyed with the secret key: nobody can
 * try out with the database alone which address it is.
 */
export function addressDigest(secretKey: string, url: string): string {
  return createHmac('sha256', secretKey).update(`address of a notifier: ${url}`).digest('base64url')
}
