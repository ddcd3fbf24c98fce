import { destination, pino, type Logger } from 'pino'

export type Log = Logger

/**
 * The logger of this thread: JSON lines on standard error, so that standard output stays for what a command prints.
 * Every thread writes to the descriptor itself and each line at once: a crash loses none, and none passes through
 * the main thread.
 */
export function createLog(level: string, bindings: Readonly<Record<string, unknown>> = {}): Log {
  return pino(
    { level, base: bindings, timestamp: pino.stdTimeFunctions.isoTime },
    destination({ fd: 2, sync: true }),
  )
}
