import { z } from 'zod'

/**
 * Headers of the connection (RFC 9110 §7.6.1, RFC 2616 §13.5.1), of the framing, or that we set ourselves: a
 * configured one would break the request.
 */
const RESERVED: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Many servers take no more headers than this in all. */
const MAX_CHARACTERS = 8000

/** A write-only list of additional request headers (RFC 9110 §5). */
export const httpHeaders = z
  .array(
    z.strictObject({
      name: z
        .string()
        .min(1)
        .max(100)
        .regex(/^[\w!#$%&'*+.^`|~-]*$/, { error: 'is no name of a header' })
        .refine((name) => !RESERVED.has(name.toLowerCase()), {
          error: 'cannot be set: the service sets it itself',
        })
        .describe('Name of the header.')
        .meta({ examples: ['X-Client'] }),
      value: z
        .string()
        .max(4000)
        .regex(/^[\x20-\x7e\t]*$/, { error: 'may have printable ASCII characters only' })
        .describe('Value of the header.')
        .meta({ examples: ['acme'] }),
    }),
  )
  .max(50)
  .refine(
    (headers) =>
      headers.reduce((sum, { name, value }) => sum + name.length + value.length, 0) <= MAX_CHARACTERS,
    { error: `must have at most ${MAX_CHARACTERS} characters in all` },
  )
  .default([])
  .meta({ writeOnly: true })
