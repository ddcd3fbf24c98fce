import { z } from 'zod'

/** The settings that targets have in common. */

/** How a failed delivery is repeated: exponential waits with jitter. To be used with `checkRetryWaits`. */
export const retrySettings = {
  retry_max_attempts: z
    .int()
    .min(1)
    .max(100)
    .default(8)
    .describe('Attempts before a delivery is failed.')
    .meta({ examples: [8] }),
  retry_initial_seconds: z
    .int()
    .min(1)
    .max(86_400)
    .default(30)
    .describe('Seconds before the second attempt; the wait doubles from then on.')
    .meta({ examples: [30] }),
  retry_max_seconds: z
    .int()
    .min(1)
    .max(604_800)
    .default(3600)
    .describe('Longest wait between two attempts, in seconds; at least `retry_initial_seconds`.')
    .meta({ examples: [3600] }),
}

/** Refuses a longest wait that is shorter than the first one. */
export function checkRetryWaits(
  settings: { readonly retry_initial_seconds: number; readonly retry_max_seconds: number },
  context: z.RefinementCtx,
): void {
  const { retry_initial_seconds: initial, retry_max_seconds: longest } = settings
  if (longest >= initial) return
  const message = `must be at least retry_initial_seconds, which is ${initial}`
  context.addIssue({ code: 'custom', path: ['retry_max_seconds'], message })
}

/** Deliveries that an instance works on at the same time (specification, 2.6). */
export function maxConcurrentDeliveries(preset: number) {
  return z
    .int()
    .min(1)
    .max(100)
    .default(preset)
    .describe('Deliveries worked on at the same time.')
    .meta({ examples: [preset] })
}

/** How long a request to another server may take. */
export const requestTimeouts = {
  connect_timeout_seconds: z
    .int()
    .min(1)
    .max(600)
    .default(30)
    .describe('Longest wait for a connection, in seconds.')
    .meta({ examples: [30] }),
  response_timeout_seconds: z
    .int()
    .min(1)
    .max(3600)
    .default(300)
    .describe('Longest wait for the answer to a message that was sent, in seconds.')
    .meta({ examples: [300] }),
}
