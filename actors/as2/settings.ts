import { z } from 'zod'
import { reference } from '../../runtime/endpoint/paging.ts'
import { targetUrl } from '../../runtime/endpoint/target-url.ts'
import { maxConcurrentDeliveries, retrySettings } from '../../storage/plugins/retry-settings.ts'

/** The settings of the AS2 plugin types. */

const GIB = 1024 ** 3

export const as2ReceiverSettings = z.object({
  host: z.string().max(255).default('').describe('Address to listen on; empty for all interfaces.'),
  port: z.int().min(0).max(65_535).default(10_080).describe('Port to listen on; 0 for any that is free.'),
  path: z
    .string()
    .max(200)
    .regex(/^\/[\x21-\x22\x24-\x3e\x40-\x7e]*$/, { error: 'must begin with / and have no space, ? or #' })
    .default('/as2')
    .describe('Path that takes messages.'),
  tls_certificate_id: reference
    .nullable()
    .default(null)
    .describe('Certificate with a private key for HTTPS; null for HTTP.'),
  max_message_bytes: z
    .int()
    .min(1)
    .max(1024 * GIB)
    .default(GIB)
    .describe('Largest message that is taken, in bytes.'),
  public_url: z
    .union([z.literal(''), targetUrl])
    .default('')
    .describe(
      'Where partners send asynchronous receipts; empty for the address made from host, port and path.',
    ),
})

export type As2ReceiverSettings = z.output<typeof as2ReceiverSettings>

export const as2SenderSettings = z.object({
  max_concurrent_deliveries: maxConcurrentDeliveries(5),
  connect_timeout_seconds: z.int().min(1).max(600).default(30).describe('Longest wait for a connection.'),
  response_timeout_seconds: z
    .int()
    .min(1)
    .max(3600)
    .default(300)
    .describe('Longest wait for the answer to a message.'),
  ...retrySettings,
})

export type As2SenderSettings = z.output<typeof as2SenderSettings>
