import { isIP } from 'node:net'
import { z } from 'zod'
import { parseNetwork } from '../http/addresses.ts'
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
    tls_client_certificate: z
      .enum(['none', 'optional', 'required'])
      .default('none')
      .describe(
        'Whether a partner must show a certificate in TLS. `required` refuses at the handshake who shows none that is trusted; `optional` also lets in who shows none.',
      )
      .meta({ examples: ['required'] }),
    tls_client_ca_certificate_ids: z
      .array(reference)
      .max(100)
      .default([])
      .describe(
        "Ids of stored certificates that the partners' TLS certificates are checked against: their authorities, or the certificates themselves. Needed unless `tls_client_certificate` is `none`.",
      )
      .meta({ examples: [[4, 5]] }),
    max_message_bytes: z
      .int()
      .min(1)
      .max(1024 * GIB)
      .default(GIB)
      .describe(
        'Largest message that is taken, in bytes. A larger one of a partner is answered with 413, and kept as `Refused` with its headers alone.',
      )
      .meta({ examples: [GIB] }),
    public_url: z
      .string()
      // It travels in a line of a header.
      .max(900)
      .superRefine((text, context) => {
        const refusal = text === '' ? null : refusalOfUrl(text)
        if (refusal !== null) context.addIssue({ code: 'custom', message: refusal })
      })
      .default('')
      .describe(
        'Where partners send asynchronous receipts: http or https, without credentials. Empty for the address made from host, port and path.',
      )
      .meta({ examples: ['https://as2.example.com/as2'] }),
    receipt_hosts: z
      .array(
        z
          .string()
          .max(255)
          .refine((text) => parseNetwork(text) !== null || HOST_NAME.test(text), {
            error: 'must be a host name, an IP address, or a network such as 10.0.0.0/8',
          }),
      )
      .max(100)
      .default([])
      .describe(
        "Where asynchronous receipts may also go, when a message asks for it: host names, addresses and networks. Public addresses, and the host of the endpoint in the partner's profile, are allowed without this; private and loopback addresses are not. Link-local addresses and metadata services of clouds are always refused. Names are compared with the host in the URL, addresses and networks with what it leads to, at each connection.",
      )
      .meta({ examples: [['receipts.partner.internal', '10.20.0.0/16']] }),
  })
  .superRefine(({ tls_certificate_id, tls_client_certificate, tls_client_ca_certificate_ids }, context) => {
    if (tls_client_certificate === 'none') return
    const refuse = (path: string, message: string): void =>
      context.addIssue({ code: 'custom', path: [path], message })
    if (tls_certificate_id === null)
      refuse('tls_client_certificate', 'must be none without tls_certificate_id: it belongs to HTTPS')
    if (tls_client_ca_certificate_ids.length === 0)
      refuse(
        'tls_client_ca_certificate_ids',
        'must name whom to trust while tls_client_certificate is not none',
      )
  })
  .describe(
    'Takes messages of partners in over AS2, over HTTP or HTTPS with TLS 1.2 or newer. The TLS certificate is shown with those of its issuers that are stored. A certificate that is changed counts from the next start of the instance.',
  )

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
