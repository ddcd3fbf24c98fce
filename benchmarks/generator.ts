import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** A process that makes load: it is told each run over IPC, and answers it with its figures or its failure. */
export interface Generator<Run, Result> {
  readonly pid: number
  readonly run: (run: Run) => Promise<Result>
}

export function startGenerator<Run extends object, Result>(
  script: URL,
  running: AsyncDisposableStack,
): Generator<Run, Result> {
  const child = fork(fileURLToPath(script), {
    serialization: 'advanced',
    // As Waybill is started: the kernel shares a busy processor among sessions first.
    detached: true,
  })
  const ended = once(child, 'exit')
  running.defer(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const failed = ended.then(() => {
    throw new Error(`${script.pathname} ended`)
  })
  failed.catch(() => undefined)
  return {
    pid: child.pid ?? 0,
    run: async (run) => {
      const answered = once(child, 'message') as Promise<[{ figures?: Result; failure?: string }]>
      child.send(run)
      const [{ figures, failure }] = await Promise.race([answered, failed])
      if (figures === undefined) throw new Error(failure)
      return figures
    },
  }
}
