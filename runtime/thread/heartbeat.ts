import type { Clock } from '../clock.ts'

export interface HeartbeatWatch {
  readonly beat: () => void
  readonly end: () => void
}

/**
 * Calls `onSilence` once when no beat came for `silenceLimitMs`. It counts its own ticks, not time: when this thread
 * itself stood still (a suspended machine, a long garbage collection) one tick is missed, not every instance lost.
 */
export function watchHeartbeat(
  clock: Clock,
  limits: { readonly heartbeatMs: number; readonly silenceLimitMs: number },
  onSilence: () => void,
): HeartbeatWatch {
  const allowedTicks = Math.ceil(limits.silenceLimitMs / limits.heartbeatMs)
  let silentTicks = 0
  let cancel = clock.after(limits.heartbeatMs, tick)
  function tick(): void {
    silentTicks += 1
    if (silentTicks >= allowedTicks) onSilence()
    else cancel = clock.after(limits.heartbeatMs, tick)
  }
  return {
    beat: () => {
      silentTicks = 0
    },
    end: () => cancel(),
  }
}
