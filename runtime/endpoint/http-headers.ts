import { z } from 'zod'

/** Headers that belong to the transport or that we set ourselves: a configured one would break the request. */
const RESERVED: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

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
        }),
      value: z
        .string()
        .max(4000)
        .regex(/^[\x20-\x7e\t]*$/, { error: 'may have printable ASCII characters only' }),
    }),
  )
  .max(50)
  .default([])
  .meta({ writeOnly: true })
