import fc from 'fast-check'
import t from 'tap'
import { WaybillError } from '../../../runtime/errors.ts'
import { isTransient } from '../../../runtime/lifecycle.ts'
import { reservePort } from '../../support/reserved-port.ts'
import { TestSupervisor } from '../test-supervisor.ts'

const NAMES = ['one', 'two', 'three'] as const
const TYPE = 'port-holder'

type Deed = 'start' | 'stop' | 'restart' | 'remove' | 'configure' | 'break_down' | 'come_to_rest'

const deed = fc.record({
  name: fc.constantFrom(...NAMES),
  deed: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom<Deed>('start', 'stop', 'restart') },
    { weight: 1, arbitrary: fc.constantFrom<Deed>('remove', 'configure', 'break_down', 'come_to_rest') },
  ),
  /** Whether the next deed comes in the same turn, so that two of a kind meet. */
  together: fc.boolean(),
})

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** What an action may answer: its new state, or a refusal that says why. */
async function judge(
  action: 'start' | 'stop' | 'restart',
  outcome: Promise<{ status: string }>,
): Promise<void> {
  try {
    const { status } = await outcome
    const expected = action === 'stop' ? 'stopped' : 'running'
    if (status !== expected) throw new Error(`${action} ended in ${status}`)
  } catch (error) {
    if (!(error instanceof WaybillError)) throw error
    if (error.code === 'NOT_FOUND') return
    if (error.code !== 'INVALID_STATE') throw error
    const { allowed } = error.details ?? {}
    if (!Array.isArray(allowed)) throw new Error('a refusal names what is allowed', { cause: error })
  }
}

t.test(
  'random actions on threads: each is done or refused, and no instance ever has two threads',
  async (t) => {
    const ports = new Map(await Promise.all(NAMES.map(async (name) => [name, await reservePort()] as const)))
    await fc.assert(
      fc.asyncProperty(fc.array(deed, { minLength: 20, maxLength: 40 }), async (deeds) => {
        const kernel = new TestSupervisor(
          { teardown: () => undefined },
          { firstBackoffMs: 1, maxRestarts: 100 },
        )
        const { supervisor } = kernel
        const save = (name: string): void =>
          kernel.save({ name, actor: TYPE, settings: ports.get(name as (typeof NAMES)[number]) })
        for (const name of NAMES) save(name)
        const underWay: Promise<unknown>[] = []
        for (const { name, deed: what, together } of deeds) {
          if (what === 'configure') save(name)
          else if (what === 'remove') underWay.push(supervisor.remove(TYPE, name))
          else if (what === 'come_to_rest') {
            if (supervisor.find(TYPE, name) !== null)
              await kernel.until(name, ({ status }) => !isTransient(status))
          } else if (what === 'break_down') {
            const ended = supervisor.request(TYPE, name, what, { timeoutMs: 120_000 })
            underWay.push(ended.catch(() => undefined))
          } else underWay.push(judge(what, supervisor[what](TYPE, name)))
          if (!together) await nextTurn()
        }
        await supervisor.shutdown()
        await Promise.all(underWay)
        // A second thread of an instance would have found the port taken.
        if (kernel.alerts.length > 0) throw new Error(kernel.alerts.map(({ reason }) => reason).join('; '))
        const unstopped = supervisor.list().filter(({ status }) => status !== 'stopped')
        if (unstopped.length > 0) throw new Error(`Not stopped: ${JSON.stringify(unstopped)}`)
      }),
      { numRuns: 8, endOnFailure: true },
    )
    t.pass()
  },
)

t.test('of two starts, and of two stops, at the same time, one is done and one refused', async (t) => {
  const kernel = new TestSupervisor(t)
  kernel.save({ name: 'one' })
  for (const action of ['start', 'stop'] as const) {
    const [first, second] = await Promise.allSettled([
      kernel.supervisor[action]('obedient', 'one'),
      kernel.supervisor[action]('obedient', 'one'),
    ])
    t.equal(first.status, 'fulfilled')
    t.match(second, { status: 'rejected', reason: { code: 'INVALID_STATE', details: { allowed: [] } } })
  }
})
