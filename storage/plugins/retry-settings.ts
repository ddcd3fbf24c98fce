import { z } from 'zod'

/** The settings by which every target repeats a failed delivery: exponential waits with jitter. */
export const retrySettings = {
  retry_max_attempts: z.int().min(1).max(100).default(8).describe('Attempts before a delivery is failed.'),
  retry_initial_seconds: z
    .int()
    .min(1)
    .max(86_400)
    .default(30)
    .describe('Wait before the second attempt; it doubles from then on.'),
  retry_max_seconds: z.int().min(1).max(604_800).default(3600).describe('Longest wait between two attempts.'),
}

/** Deliveries that an instance works on at the same time (specification, 2.6). */
export function maxConcurrentDeliveries(preset: number) {
  return z.int().min(1).max(100).default(preset).describe('Deliveries worked on at the same time.')
}
