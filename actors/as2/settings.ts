import { isIP } from 'node:net'
import { z } from 'zod'
import { reference } from '../../runtime/endpoint/paging.ts'
import { refusalOfUrl } from '../../runtime/endpoint/target-url.ts'
import {
  checkRetryWaits,
  maxConcurrentDeliveries,
  requestTimeouts,
  retrySettings,
} from '../../storage/plugins/target-settings.ts'

/** The settings of the AS2 plugin types. */

/** RFC 1123 §2.1. A name that ends in a number would be read as an IPv4 address. */
const HOST_NAME = /^(?:[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?\.)*(?!\d+$)[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?$/i

function isHost(text: string): boolean {
  return isIP(text) !== 0 || (text.length <= 253 && HOST_NAME.test(text))
}

const GIB = 1024 ** 3

export const as2ReceiverSettings = z
  .object({
    host: z
      .string()
      .max(255)
      .refine((text) => text === '' || isHost(text), {
        error: 'must be a host name, an IPv4 or an IPv6 address, without a port',
      })
      .default('')
      .describe(
        'Address to listen on: a host name, an IPv4 or an IPv6 address, without brackets; empty for all interfaces.',
      )
      .meta({ examples: ['192.0.2.10'] }),
    port: z
      .int()
      .min(0)
      .max(65_535)
      .default(10_080)
      .describe('Port to listen on; 0 for any that is free.')
      .meta({ examples: [10_080] }),
    path: z
      .string()
      .max(200)
      .regex(/^\/[\x21-\x22\x24-\x3e\x40-\x7e]*$/, { error: 'must begin with / and have no space, ? or #' })
      .default('/as2')
      .describe('Path that takes messages.')
      .meta({ examples: ['/as2'] }),
    tls_certificate_id: reference
      .nullable()
      .default(null)
      .describe('Id of a stored certificate with a private key, for HTTPS; null for HTTP.')
      .meta({ examples: [3] }),
    max_message_bytes: z
      .int()
      .min(1)
      .max(1024 * GIB)
      .default(GIB)
      .describe('Largest message that is taken, in bytes.')
      .meta({ examples: [GIB] }),
    public_url: z
      .string()
      .max(2000)
      .superRefine((text, context) => {
        const refusal = text === '' ? null : refusalOfUrl(text)
        if (refusal !== null) context.addIssue({ code: 'custom', message: refusal })
      })
      .default('')
      .describe(
        'Where partners send asynchronous receipts: http or https, without credentials. Empty for the address made from host, port and path.',
      )
      .meta({ examples: ['https://as2.example.com/as2'] }),
  })
  .describe('Takes messages of partners in over AS2.')

export type As2ReceiverSettings = z.output<typeof as2ReceiverSettings>

export const as2SenderSettings = z
  .object({
    max_concurrent_deliveries: maxConcurrentDeliveries(5),
    ...requestTimeouts,
    ...retrySettings,
  })
  .superRefine(checkRetryWaits)
  .describe('Sends messages over AS2, each to the endpoint of its partner.')

export type As2SenderSettings = z.output<typeof as2SenderSettings>
