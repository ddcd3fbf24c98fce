import { systemClock } from '../../runtime/clock.ts'
import { createLog } from '../../runtime/log.ts'
import { Supervisor } from '../../runtime/supervisor/supervisor.ts'

/** A process for log.test.ts: its one instance writes a line and exits at once. */

const supervisor = new Supervisor({
  node: 'node-1',
  log: createLog('error'),
  clock: systemClock,
  process: null,
  maxRestarts: 0,
  onAlert: () => undefined,
  loadSpec: (type, name) => {
    const actor = new URL('./actors/obedient.ts', import.meta.url)
    return Promise.resolve({ type, name, role: 'target', generation: '1', actor, settings: {} })
  },
})
supervisor.configure({ type: 'obedient', name: 'one', role: 'target', generation: '1' })
await supervisor.start('obedient', 'one')
await Promise.allSettled(
  [{ kind: 'log' }, { kind: 'exit', code: 3 }].map((order) =>
    supervisor.request('obedient', 'one', order, { timeoutMs: 120_000 }),
  ),
)
await supervisor.shutdown()
