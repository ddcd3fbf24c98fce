import { z } from 'zod'

/**
 * The value of AS2-From and AS2-To (RFC 4130 §6.2): 1 to 128 printable ASCII characters; their case counts. Spaces,
 * quotes and backslashes are quoted on the wire and stand here as they are.
 */
export const as2id = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[\x20-\x7e]*$/, { error: 'may have printable ASCII characters only' })
  .refine((text) => text.trim() === text, { error: 'must not begin or end with a space' })
