import { z } from 'zod'
import { basicPassword, basicUsername, checkBasicPair } from '../../runtime/endpoint/basic-credentials.ts'
import { httpHeaders } from '../../runtime/endpoint/http-headers.ts'
import { targetUrl } from '../../runtime/endpoint/target-url.ts'
import {
  checkRetryWaits,
  maxConcurrentDeliveries,
  requestTimeouts,
  retrySettings,
} from '../../storage/plugins/target-settings.ts'
import { parseNetwork } from './addresses.ts'
import { checkHeaders } from './credentials.ts'
import { SIGNATURE_HEADERS, signingSecret } from './signature.ts'

/** The settings of the plugin type `http-poster`. */
export const httpPosterSettings = z
  .object({
    url: targetUrl
      .describe(
        'Where messages are sent: http or https, without a user name, a password, a fragment, or a parameter that is a credential. An update that changes it must send the write-only values again.',
      )
      .meta({ examples: ['https://erp.example.com/inbox'] }),
    method: z
      .enum(['POST', 'PUT'])
      .default('POST')
      .describe('Method of the requests.')
      .meta({ examples: ['POST'] }),
    http_basic_username: basicUsername('http_basic_password'),
    http_basic_password: basicPassword('http_basic_username'),
    http_headers: httpHeaders
      .describe(
        'Write-only. More headers of each request; a list replaces the stored one, an empty list removes it.',
      )
      .meta({ examples: [[{ name: 'X-Tenant', value: 'acme' }]] }),
    content_type: z
      .string()
      .max(500)
      .regex(/^(?:[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:\s*;[\x20-\x7e]*)?)?$/, {
        error: 'must be a media type such as text/plain',
      })
      .default('')
      .describe(
        "Content-Type of the requests; empty for each message's own. A message with several files keeps its own `multipart/related`, whose boundary tells them apart.",
      )
      .meta({ examples: ['application/edifact'] }),
    signing_secret: signingSecret,
    refused_networks: z
      .array(
        z
          .string()
          .max(50)
          .refine((text) => parseNetwork(text) !== null, {
            error: 'must be an IP address, or a network such as 10.0.0.0/8',
          }),
      )
      .max(100)
      .default([])
      .describe(
        'Networks that are never connected to, wherever the name in the URL leads; checked with each connection. Link-local addresses and metadata services of clouds are always refused.',
      )
      .meta({ examples: [['10.0.0.0/8', 'fd00::/8']] }),
    max_concurrent_deliveries: maxConcurrentDeliveries(5),
    ...requestTimeouts,
    ...retrySettings,
  })
  .superRefine((settings, context) => {
    checkRetryWaits(settings, context)
    checkBasicPair(settings, context, 'http_basic_username', 'http_basic_password')
    const reserved = settings.http_basic_username === '' ? [] : ['authorization']
    checkHeaders(settings, context, 'http_headers', [...SIGNATURE_HEADERS, ...reserved])
  })
  .describe(
    'Sends the payload of each message in one HTTP request. Any answer of 2xx is a delivery; other 4xx than 408, 425 and 429, and redirects, fail at once; the rest is repeated.',
  )

export type HttpPosterSettings = z.output<typeof httpPosterSettings>
